/** Makes what a listener knows of its callers; most listeners let everybody in and need nothing of it. */
import type { Clock } from '../clock.ts';
import { AddressList } from '../config/address-list.ts';
import type { ClientConfig, JwtClient, ListenerConfig } from '../config/config.ts';
import type { ChallengeScheme, OwnChallenge } from '../http/own-challenge.ts';
import { BasicEntry } from '../inbound/basic-entry.ts';
import { CallerCheck, type CallerMeters } from '../inbound/caller-check.ts';
import type { ClientEntry, ConnectionEntry } from '../inbound/client-entry.ts';
import { HeaderEntry } from '../inbound/header-entry.ts';
import { JwtEntry } from '../inbound/jwt-entry.ts';
import { MtlsEntry } from '../inbound/mtls-entry.ts';
import { NegotiateEntry } from '../inbound/negotiate-entry.ts';
import { PrincipalRules } from '../inbound/principal-rules.ts';
import type { TicketCallers } from '../inbound/ticket-callers.ts';
import { CLIENTS, INBOUND_RESULTS } from '../metrics/label-words.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { ListenerCallers } from '../proxy/listener-callers.ts';
import { REQUEST_FIELD, type RequestFields } from '../wire/request-fields.ts';
import type { Generation } from './generation.ts';
import type { Runtime } from './runtime.ts';

/** What a dispatcher shares with the rest of its listener. */
export interface ListenerParts {
  readonly fields: RequestFields;
  readonly callers: ListenerCallers | undefined;
}

/** undefined: anybody may call, and routes and upstreams alone say as whom. */
export function createCallers(
  generation: Generation,
  runtime: Runtime,
  listener: ListenerConfig,
  fields: RequestFields,
): ListenerCallers | undefined {
  const { config, identities } = generation;
  const { clients, principal: rules, name } = listener;
  if (rules === undefined && clients.every(({ kind }) => kind === 'none')) return undefined;
  const principals = Object.values(config.principals);
  const fromClient = principals.filter(({ kind }) => kind === 'client');
  return new ListenerCallers({
    check: new CallerCheck({
      entries: entriesOf(listener, {
        generation,
        clock: runtime.clock,
        fields,
        tickets: runtime.tickets,
      }),
      takesNone: clients.some(({ kind }) => kind === 'none'),
      challenge: challengeOf(listener),
      meters: callerMeters(runtime.metrics, name),
    }),
    rules: new PrincipalRules(rules),
    own: identities,
    fromClient: new Set(fromClient.map((one) => one.name)),
    identities: runtime.callers,
  });
}

interface EntryDeps {
  readonly generation: Generation;
  readonly clock: Clock;
  readonly fields: RequestFields;
  readonly tickets: TicketCallers;
}

/** In the order of the file. All issuers are one entry: a token is of one kind, whoever signed it. */
function entriesOf(
  { clients, mode, name: listener }: ListenerConfig,
  { generation, clock, fields, tickets }: EntryDeps,
): (ClientEntry | ConnectionEntry)[] {
  const { callerSources: sources, tls } = generation;
  const field = mode === 'forward' ? REQUEST_FIELD.proxyAuthorization : REQUEST_FIELD.authorization;
  const issuers = clients.filter((one): one is JwtClient => one.kind === 'jwt');
  return clients.flatMap((client: ClientConfig): (ClientEntry | ConnectionEntry)[] => {
    switch (client.kind) {
      case 'none':
        return [];
      case 'basic':
        return [new BasicEntry(field, sources.usersOf(client))];
      case 'jwt':
        if (client !== issuers[0]) return [];
        return [
          new JwtEntry(
            field,
            issuers.map((issuer) => sources.verifierOf(issuer)),
          ),
        ];
      case 'negotiate':
        return [
          new NegotiateEntry({
            field,
            answerField: mode === 'forward' ? 'Proxy-Authenticate' : 'WWW-Authenticate',
            persist: client.persist,
            acceptor: sources.acceptorOf(client),
            callers: tickets,
          }),
        ];
      case 'header': {
        const { name, from } = client;
        return [new HeaderEntry({ name, field: fields.idOf(name), from: new AddressList(from) })];
      }
      case 'mtls': {
        const { subject } = client;
        return [new MtlsEntry({ subject, trust: tls.get(listener)?.trust ?? '', clock })];
      }
      default:
        return client satisfies never;
    }
  });
}

/** A field that a trusted proxy sets is not for callers to send: nobody is asked for it. */
function challengeOf({ clients, mode }: ListenerConfig): OwnChallenge | undefined {
  const schemes = clients.flatMap((client): ChallengeScheme[] => {
    if (client.kind === 'basic') return [{ kind: 'basic', realm: client.realm }];
    if (client.kind === 'negotiate') return [{ kind: 'negotiate' }];
    return client.kind === 'jwt' ? [{ kind: 'bearer' }] : [];
  });
  const isBearer = ({ kind }: ChallengeScheme): boolean => kind === 'bearer';
  const once = schemes.filter((one, at) => !isBearer(one) || schemes.findIndex(isBearer) === at);
  return once.length === 0 ? undefined : { status: mode === 'forward' ? 407 : 401, schemes: once };
}

/**
 * A browser sends everything but tokens by itself, and so lets a page of any origin call in its user's
 * name (config.md, "Web pages must not use us").
 */
export const needsPageRule = ({ clients }: ListenerConfig): boolean =>
  clients.some(({ kind }) => kind !== 'jwt');

/** Children are kept: a request must not look one up. */
function callerMeters({ inboundAuth }: Metrics, listener: string): CallerMeters {
  const counters = Object.fromEntries(
    CLIENTS.map((client) => [
      client,
      Object.fromEntries(
        INBOUND_RESULTS.map((result) => [result, inboundAuth.child(listener, client, result)]),
      ),
    ]),
  );
  return { judged: (client, result) => counters[client]?.[result]?.add() };
}
