/** Who may call a listener, and when that is too open: `clients`, the admin listener, Basic. */

import { platform } from 'node:process';
import type { AdminEntry, ClientEntry, ListenerEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import type { Check } from './context.ts';
import { besides, clientKinds, eachListener, isLocal, kindOf } from './context.ts';
import { serverTlsFindings } from './listeners.ts';

export const checkClients: Check = (context) => [
  ...eachListener(context, (listener, path) => [
    ...exposureFindings(listener, path),
    ...entryFindings(listener, path),
  ]),
  ...(context.contract.admin === undefined ? [] : adminFindings(context.contract.admin)),
];

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
    return kindFindings(client, listener, at).map((finding): Finding => {
      return { ...finding, ...besides(path, ['tls', 'http2', 'dangerousPlaintextBasic']) };
    });
  });
}

function kindFindings(client: ClientEntry, listener: ListenerEntry, path: KeyPath): Finding[] {
  if (client === 'none' || 'jwt' in client || 'header' in client) return [];
  if ('mtls' in client) {
    return listener.tls === undefined
      ? [{ path, message: 'client certificates need tls on the listener' }]
      : [];
  }
  if ('basic' in client) return basicFindings(client.basic, listener, [...path, 'basic']);
  if ('negotiate' in client) {
    const { persist, directClients } = client.negotiate;
    if (persist === 'request' || (directClients && !listener.http2)) return [];
    const message = 'connection needs directClients: true, and HTTP/1.1 only';
    return [{ path: [...path, 'negotiate', 'persist'], message }];
  }
  if (platform !== 'win32')
    return [{ path, message: 'sspi exists on Windows only; use negotiate here' }];
  return listener.http2 ? [{ path, message: 'sspi is HTTP/1.1 only' }] : [];
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
