/**
 * Callers of `basic: { pass: true }`: the listener verifies nobody, so each of them may only be himself
 * upstream, where his password is proven (config.md, Clients).
 */

import type { ListenerEntry } from '../contract.ts';
import type { Finding, KeyPath } from '../faults.ts';
import { formatPath } from '../faults.ts';
import type { CheckContext, ClientWord } from './context.ts';
import { besides, clientKinds, entryOf, isLocal } from './context.ts';
import type { Use } from './uses.ts';

/** A caller's own password needs Basic; who was not verified gets nothing but his own. */
export function callerFindings(use: Use, context: CheckContext): Finding[] {
  const listener = context.contract.listeners[use.listener];
  const principal = entryOf(context.contract.principals, use.principal);
  if (listener === undefined || principal === undefined) return [];
  const kinds = kindsOfUse(use, listener);
  const at: KeyPath = ['listeners', use.listener];
  const where = formatPath(at);
  const basis = [
    [...at, 'clients'],
    [...at, 'principal'],
    [...at, 'mode'],
    ['principals', use.principal],
  ];
  if (principal.from === 'client') {
    if (kinds.every((kind) => kind === 'basic')) return [];
    const message = `from: client is for basic callers only, and ${where} lets others get here`;
    return [{ path: use.path, message, basis }];
  }
  if (!kinds.includes('basic') || !passesBasic(listener)) return [];
  const message = `basic: { pass: true } of ${where} verifies nobody; such callers may only get a from: client principal`;
  return [{ path: use.path, message, basis }];
}

/**
 * Where nobody verifies a caller, upstreams neither, any password opens the door. Only this machine may
 * have such a door unsaid.
 */
export function openDoorFindings(
  listener: ListenerEntry,
  path: KeyPath,
  { context, uses }: { readonly context: CheckContext; readonly uses: readonly Use[] },
): Finding[] {
  if (isLocal(listener.listen) || listener.dangerousOpenProxy) return [];
  if (!passesBasic(listener) || !letsBasicIn(listener)) return [];
  const isProven = (use: Use): boolean =>
    use.listener === path[1] &&
    entryOf(context.contract.principals, use.principal)?.from === 'client';
  const proven = uses.filter(isProven);
  const say = (at: KeyPath, what: string): Finding => ({
    path: at,
    message: `basic: { pass: true } verifies nobody, and neither does ${what}; dangerousOpenProxy: true allows it`,
    ...besides(path, ['dangerousOpenProxy', 'principal', 'clients']),
  });
  if (listener.mode === 'reverse') {
    return (listener.routes ?? []).flatMap((route, index) =>
      proven.some((use) => use.route === index)
        ? []
        : [say([...path, 'routes', index], `a login at ${route.upstream}`)],
    );
  }
  const at = [...path, 'clients'];
  if (goesDirect(listener)) return [say(at, 'a target that is reached directly')];
  const unproven = [...listener.via, ...listener.origins].find(
    (name) => !proven.some(({ upstream }) => upstream === name),
  );
  return unproven === undefined ? [] : [say(at, `a login at ${unproven}`)];
}

const goesDirect = ({ via, direct }: ListenerEntry): boolean =>
  via.length === 0 || via.includes('direct') || direct.length > 0;

const letsBasicIn = ({ principal }: ListenerEntry): boolean =>
  principal?.some(({ when }) => when.client === undefined || when.client === 'basic') ?? true;

/** The kinds of callers that can come by a use. */
function kindsOfUse(use: Use, listener: ListenerEntry): ClientWord[] {
  const kinds = clientKinds(listener);
  if (listener.principal === undefined) return kinds;
  const rules =
    use.rule === undefined ? listener.principal : listener.principal.slice(use.rule, use.rule + 1);
  return rules.flatMap(({ when }) => (when.client === undefined ? kinds : [when.client]));
}

function passesBasic(listener: ListenerEntry): boolean {
  return (listener.clients ?? []).some(
    (client) => client !== 'none' && 'basic' in client && client.basic.pass === true,
  );
}
