/**
 * The helper process: the only place that loads the native Kerberos package. A silent KDC blocks the
 * threads of this process and no others; a crash of the library ends this process alone.
 *
 * The environment that chooses configuration, collection and keytab is fixed when it is spawned. The
 * first argument, if any, names the private folder that goes with it. Contract: `messages.ts`.
 */
import { rmSync } from 'node:fs';
import type * as Kerberos from 'kerberos';
import type { FromHelper, ToHelper } from './messages.ts';

type Native = (typeof Kerberos)['default'];
type Context = Kerberos.KerberosClient;
type ContextOptions = Kerberos.InitializeClientOptions & { readonly flags: number };

/** More than any proxy has logins under way; beyond it the oldest context was forgotten by its owner. */
const MAX_CONTEXTS = 4096;

const contexts = new Map<number, Context>();

await serve();

async function serve(): Promise<void> {
  // A terminal and a service manager signal the whole group, but the daemon decides when this ends.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => undefined);
  process.once('disconnect', leave);
  let native: Native;
  try {
    ({ default: native } = await import('kerberos'));
  } catch (error) {
    say({ kind: 'missing', text: textOf(error) });
    return;
  }
  process.on('message', (message: ToHelper) => {
    receive(native, message).catch((error: unknown) => {
      say({ kind: 'failed', id: message.id, text: textOf(error) });
    });
  });
  say({ kind: 'ready' });
}

/** The daemon is gone: nobody else removes the tickets. An ordinary exit would wait for the KDC. */
function leave(): void {
  const folder = process.argv[2];
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  process.kill(process.pid, 'SIGKILL');
}

async function receive(native: Native, message: ToHelper): Promise<void> {
  const { id } = message;
  switch (message.kind) {
    case 'initiate': {
      // `flags` is what the package reads; its types know `gssFlag` only (kerberos 7.0.0).
      const options: ContextOptions = {
        mechOID: native.GSS_MECH_OID_SPNEGO,
        flags: native.GSS_C_MUTUAL_FLAG,
        ...(message.principal === undefined ? {} : { principal: message.principal }),
      };
      const context = await native.initializeClient(serviceName(message.spn), options);
      const token = Buffer.from(await context.step(''), 'base64');
      keep(id, context);
      say({ kind: 'token', id, token });
      return;
    }
    case 'finish': {
      const context = contexts.get(id);
      contexts.delete(id);
      if (context === undefined) throw new Error('the context is gone');
      await context.step(Buffer.from(message.token).toString('base64'));
      say({ kind: 'finished', id, complete: context.contextComplete });
      return;
    }
    case 'dispose':
      contexts.delete(id);
      return;
    case 'accept': {
      // An object for each token: after an error it still says that its context is complete (kerberos
      // 7.0.0). Without a name of its own the acceptor takes what the keytab has keys of.
      const context = await native.initializeServer('');
      const answer: unknown = await context.step(Buffer.from(message.token).toString('base64'));
      const token = Buffer.from(typeof answer === 'string' ? answer : '', 'base64');
      say({ kind: 'accepted', id, name: context.username, token });
      return;
    }
    default:
      message satisfies never;
  }
}

function keep(id: number, context: Context): void {
  const [oldest] = contexts.keys();
  if (contexts.size >= MAX_CONTEXTS && oldest !== undefined) contexts.delete(oldest);
  contexts.set(id, context);
}

/** GSSAPI writes a host-based service as `HTTP@host`, SSPI as it is configured. */
function serviceName(spn: string): string {
  return process.platform === 'win32' ? spn : spn.replace('/', '@');
}

function say(message: FromHelper): void {
  process.send?.(message);
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
