/** Who may call a listener, and when that is too open: `clients`, the admin listener, Basic. */

import { isIP } from 'node:net';
import { platform } from 'node:process';
import { AddressList } from '../address-list.ts';
import { isLoopback } from '../addresses.ts';
import { isUrl } from '../urls.ts';
import type { AdminEntry, ClientEntry, ListenerEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import type { Check } from './context.ts';
import { besides, clientKinds, eachListener, isLocal, kindOf } from './context.ts';
import { serverTlsFindings } from './listeners.ts';

export const checkClients: Check = (context) => [
  ...eachListener(context, (listener, path) => [
    ...exposureFindings(listener, path),
    ...entryFindings(listener, path),
    ...lostNameFindings(listener, path),
  ]),
  ...(context.contract.admin === undefined ? [] : adminFindings(context.contract.admin)),
];

/** HTTP/2 loses a field that is malformed before anybody sees it: who was to be named would be nobody. */
function lostNameFindings(listener: ListenerEntry, path: KeyPath): Finding[] {
  const kinds = clientKinds(listener);
  const index = kinds.indexOf('header');
  if (!listener.http2 || index < 0 || !kinds.includes('none')) return [];
  const message = 'with http2 a name that is malformed is lost, and would be taken for none';
  return [{ path: [...path, 'clients', index], message, ...besides(path, ['http2']) }];
}

function exposureFindings(listener: ListenerEntry, path: KeyPath): Finding[] {
  if (isLocal(listener.listen)) return [];
  if (listener.clients === undefined) {
    return [
      {
        path: [...path, 'clients'],
        message: 'missing; a listener beyond loopback must say who may call',
      },
    ];
  }
  if (clientKinds(listener).at(-1) !== 'none' || listener.dangerousOpenProxy) return [];
  const message = 'anybody could call beyond loopback; dangerousOpenProxy: true allows it';
  return [{ path: [...path, 'clients'], message, ...besides(path, ['dangerousOpenProxy']) }];
}

function entryFindings(listener: ListenerEntry, path: KeyPath): Finding[] {
  const clients = listener.clients ?? [];
  return clients.flatMap((client, index): Finding[] => {
    const at = [...path, 'clients', index];
    const kind = kindOf(client);
    const sooner = clients.findIndex((other) => kindOf(other) === kind);
    if (kind === 'none' && index < clients.length - 1) {
      return [{ path: at, message: 'none may stand only alone or last' }];
    }
    // Several issuers, and several trusted headers, are told apart by the request itself.
    if (sooner < index && kind !== 'jwt' && kind !== 'header') {
      return [{ path: at, message: `clients[${sooner}] is of this kind` }];
    }
    if (isNamedTwice(clients, index)) {
      return [{ path: at, message: 'an entry before has this issuer, or this field' }];
    }
    return kindFindings(client, listener, at).map((finding): Finding => {
      return {
        ...finding,
        ...besides(path, [
          'tls',
          'http2',
          'routes',
          'dangerousPlaintextBasic',
          'dangerousOpenProxy',
        ]),
      };
    });
  });
}

/** Which of two would decide is nobody's guess. */
function isNamedTwice(clients: readonly ClientEntry[], index: number): boolean {
  const own = nameOf(clients[index]);
  return own !== undefined && clients.findIndex((other) => nameOf(other) === own) < index;
}

/** What tells several entries of one kind apart. */
function nameOf(client: ClientEntry | undefined): string | undefined {
  if (client === undefined || client === 'none') return undefined;
  if ('jwt' in client) return `jwt ${client.jwt.issuer}`;
  if ('header' in client) {
    return `header ${client.header.name.toLowerCase().replaceAll(/[_.]/g, '-')}`;
  }
  return undefined;
}

function kindFindings(client: ClientEntry, listener: ListenerEntry, path: KeyPath): Finding[] {
  if (client === 'none') return [];
  if ('header' in client) return trustFindings(client.header.from, listener, [...path, 'header']);
  if ('jwt' in client) return jwtFindings(client.jwt, [...path, 'jwt']);
  if ('mtls' in client) {
    return listener.tls === undefined
      ? [{ path, message: 'client certificates need tls on the listener' }]
      : [];
  }
  if ('basic' in client) return basicFindings(client.basic, listener, [...path, 'basic']);
  if ('negotiate' in client) {
    return negotiateFindings(client.negotiate, listener, [...path, 'negotiate']);
  }
  if (platform !== 'win32')
    return [{ path, message: 'sspi exists on Windows only; use negotiate here' }];
  return listener.http2 ? [{ path, message: 'sspi is HTTP/1.1 only' }] : [];
}

function negotiateFindings(
  { persist, directClients }: { readonly persist: string; readonly directClients: boolean },
  { http2, mode, routes = [] }: ListenerEntry,
  path: KeyPath,
): Finding[] {
  if (platform === 'win32') {
    return [{ path, message: 'the package kerberos takes no tickets on Windows; use sspi there' }];
  }
  const findings: Finding[] = [];
  if (persist === 'connection' && (!directClients || http2)) {
    const message = 'connection needs directClients: true, and HTTP/1.1 only';
    findings.push({ path: [...path, 'persist'], message });
  }
  // An origin's challenge would be answered to the listener, by the field that it takes.
  const passing = routes.findIndex(({ challenge }) => challenge === 'pass');
  if (mode === 'reverse' && passing >= 0) {
    const message = `routes[${passing}] passes challenges, which such callers can only answer to the listener`;
    findings.push({ path, message });
  }
  return findings;
}

/** Whoever can change the answer on its way decides who is let in. */
function jwtFindings(
  {
    jwks,
    dangerousPlaintextJwks,
  }: { readonly jwks: string; readonly dangerousPlaintextJwks: boolean },
  path: KeyPath,
): Finding[] {
  const url = isUrl(jwks) ? URL.parse(jwks) : null;
  if (url?.protocol !== 'http:' || dangerousPlaintextJwks) return [];
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (host === 'localhost' || (isIP(host) !== 0 && isLoopback(host))) return [];
  const message =
    'keys over plain http can be exchanged on their way; dangerousPlaintextJwks: true allows it';
  return [{ path: [...path, 'jwks'], message, ...besides(path, ['dangerousPlaintextJwks']) }];
}

/** One address in each of many networks, of either family: what covers half of them means nobody. */
const SAMPLES: readonly (readonly string[])[] = [
  Array.from({ length: 223 }, (_, index) => `${index + 1}.77.77.77`),
  Array.from({ length: 32 }, (_, index) => `${(0x2000 + index * 0x100).toString(16)}:7700::77`),
];

/** A field that anybody may set says nothing. */
function trustFindings(from: readonly string[], listener: ListenerEntry, path: KeyPath): Finding[] {
  if (isLocal(listener.listen) || listener.dangerousOpenProxy) return [];
  const trusted = new AddressList(from);
  const isWide = SAMPLES.some(
    (sample) => sample.filter((address) => trusted.includes(address)).length * 2 >= sample.length,
  );
  if (!isWide) return [];
  const message =
    'nearly anybody could say who he is; name the proxies in front, or allow it by dangerousOpenProxy: true';
  return [{ path: [...path, 'from'], message, ...besides(path, ['name']) }];
}

function basicFindings(
  basic: { readonly pass?: true | undefined; readonly users?: unknown },
  listener: ListenerEntry,
  path: KeyPath,
): Finding[] {
  const findings: Finding[] = [];
  if ((basic.pass === undefined) === (basic.users === undefined)) {
    findings.push({ path, message: 'wanted: pass: true, or users' });
  }
  const isPlain = listener.tls === undefined && !isLocal(listener.listen);
  if (isPlain && !listener.dangerousPlaintextBasic) {
    const message =
      'Basic over plain http shows the password; dangerousPlaintextBasic: true allows it';
    findings.push({ path, message });
  }
  return findings;
}

function adminFindings(admin: AdminEntry): Finding[] {
  const findings = (admin.tls ?? []).flatMap((tls, index) =>
    serverTlsFindings(tls, ['admin', 'tls', index]),
  );
  const kinds = clientKinds(admin);
  for (const [index, { client }] of (admin.allow ?? []).entries()) {
    if (kinds.includes(client)) continue;
    findings.push({
      path: ['admin', 'allow', index, 'client'],
      message: 'not among the clients of admin',
    });
  }
  const isGuarded =
    admin.tls !== undefined &&
    admin.clients !== undefined &&
    admin.allow !== undefined &&
    !kinds.includes('none');
  if (!isLocal(admin.listen) && !isGuarded && !admin.dangerousOpenAdmin) {
    const message =
      'beyond loopback the admin listener needs tls, clients (without none) and allow; dangerousOpenAdmin: true allows it without';
    const basis = besides(['admin'], ['tls', 'clients', 'allow', 'dangerousOpenAdmin']);
    findings.push({ path: ['admin', 'listen'], message, ...basis });
  }
  return findings;
}
