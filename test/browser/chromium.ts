/**
 * A headless Chromium of the test's own, driven over a pipe with the DevTools protocol: tabs, loads
 * and expressions run in a page. What pages do and what must come of it is decided by the tests.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { within } from '../support/waiting.ts';

/** Where Debian's package puts it. */
export const CHROMIUM = '/usr/bin/chromium';

/** Milliseconds that a start, a load, or anything that waits for a page may take on a busy machine. */
export const BROWSER_DEADLINE_MS = 20_000;

const FLAGS = [
  '--headless=new',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-crash-reporter',
  // The browser's own fences between networks stay down, so that only sidekerb's rule is in the way.
  '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,HttpsUpgrades',
  '--remote-debugging-pipe',
] as const;

/** Flags that lead everything, loopback too, through `proxy`, and trust a key by its SHA-256 in base64. */
export const throughProxy = (proxy: string, trustedKey: string): string[] => [
  `--proxy-server=${proxy}`,
  '--proxy-bypass-list=<-loopback>',
  `--ignore-certificate-errors-spki-list=${trustedKey}`,
];

interface Message {
  readonly id?: number;
  readonly sessionId?: string;
  readonly method?: string;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

interface Evaluation {
  readonly result: { readonly value?: unknown };
  readonly exceptionDetails?: {
    readonly text: string;
    readonly exception?: { readonly description?: string };
  };
}

/** A running browser; `await using` stops it by its process id and removes its profile. */
export class Chromium {
  readonly #process: ChildProcess;
  readonly #profile: string;
  readonly #exit: Promise<unknown>;
  readonly #input: Writable;
  readonly #answers = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #events = new EventEmitter().setMaxListeners(0);
  #lastId = 0;
  #rest = '';
  #stderr = '';

  /**
   * Starts it; `resolverRules` as in `--host-resolver-rules`, and flags that say how it reaches the network
   * (`throughProxy`), by default without any proxy.
   */
  static async start(
    resolverRules: string,
    network: readonly string[] = ['--no-proxy-server'],
  ): Promise<Chromium> {
    const profile = mkdtempSync(join(temporaryFolder(), 'chromium-'));
    const flags = [...FLAGS, ...network, `--host-resolver-rules=${resolverRules}`];
    const browser = new Chromium(profile, flags);
    try {
      await browser.send('Browser.getVersion');
    } catch (error) {
      await browser[Symbol.asyncDispose]();
      throw new Error(`Chromium did not start: ${browser.#stderr}`, { cause: error });
    }
    return browser;
  }

  constructor(profile: string, flags: readonly string[]) {
    this.#profile = profile;
    this.#process = spawn(CHROMIUM, [...flags, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: profile },
    });
    this.#exit = once(this.#process, 'exit');
    const [, , errors, input, output] = this.#process.stdio;
    if (!(input instanceof Writable) || !(output instanceof Readable)) throw new Error('no pipe');
    this.#input = input;
    input.on('error', () => undefined);
    errors?.on('data', (piece: Buffer) => {
      this.#stderr = (this.#stderr + piece.toString()).slice(-4000);
    });
    output.setEncoding('utf8').on('data', (piece: string) => this.#receive(piece));
    output.on('close', () => {
      for (const answer of this.#answers.values()) answer.reject(new Error('Chromium has ended'));
    });
  }

  /** One command of the protocol; to a tab when there is a session. */
  async send(method: string, params: object = {}, sessionId?: string): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = Promise.withResolvers<unknown>();
    this.#answers.set(id, answer);
    this.#input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    try {
      return await within(answer.promise, `an answer to ${method}`, BROWSER_DEADLINE_MS);
    } finally {
      this.#answers.delete(id);
    }
  }

  /** Resolves with the next event of this name in a tab. */
  async next(method: string, sessionId: string): Promise<void> {
    const happened = once(this.#events, `${sessionId} ${method}`);
    await within(happened, method, BROWSER_DEADLINE_MS);
  }

  /** A tab with cookies, cache and connections of its own, at `url` as if a person typed it. */
  async open(url: string): Promise<Page> {
    const context = (await this.send('Target.createBrowserContext')) as {
      browserContextId: string;
    };
    const target = (await this.send('Target.createTarget', { url: 'about:blank', ...context })) as {
      targetId: string;
    };
    const attached = (await this.send('Target.attachToTarget', { ...target, flatten: true })) as {
      sessionId: string;
    };
    const page = new Page(this, attached.sessionId, context.browserContextId);
    await this.send('Page.enable', {}, attached.sessionId);
    await page.type(url);
    return page;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { pid } = this.#process;
    if (pid !== undefined && this.#process.exitCode === null) {
      this.#input.write(`${JSON.stringify({ id: 0, method: 'Browser.close' })}\0`);
      const kill = setTimeout(() => this.#process.kill('SIGKILL'), 5000);
      await this.#exit;
      clearTimeout(kill);
    }
    // Helper processes may write to the profile for a moment longer.
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  #receive(piece: string): void {
    const messages = (this.#rest + piece).split('\0');
    this.#rest = messages.pop() ?? '';
    for (const text of messages) {
      const message: Message = JSON.parse(text);
      if (message.method !== undefined) {
        this.#events.emit(`${message.sessionId ?? ''} ${message.method}`);
        continue;
      }
      const answer = this.#answers.get(message.id ?? 0);
      if (message.error === undefined) answer?.resolve(message.result);
      else answer?.reject(new Error(message.error.message));
    }
  }
}

/** One tab. */
export class Page {
  readonly #browser: Chromium;
  readonly #session: string;
  readonly #context: string;

  constructor(browser: Chromium, session: string, context: string) {
    this.#browser = browser;
    this.#session = session;
    this.#context = context;
  }

  /** Goes to `url` as if a person typed it, and waits until it is loaded. */
  async type(url: string): Promise<void> {
    await this.loads(async () => {
      const answer = await this.#browser.send('Page.navigate', { url }, this.#session);
      const { errorText } = answer as { errorText?: string };
      if (errorText !== undefined) throw new Error(`${url}: ${errorText}`);
    });
  }

  /** Runs `action` and waits until the document that it leads to is loaded. */
  async loads(action: () => Promise<unknown>): Promise<void> {
    const loaded = this.#browser.next('Page.loadEventFired', this.#session);
    await Promise.all([loaded, action()]);
    // The event may have been that of the document before.
    await this.evaluate(
      `document.readyState === 'complete' || new Promise((resolve) => addEventListener('load', resolve))`,
    );
  }

  /** The value of a JavaScript expression in the page, awaited when it is a promise. */
  async evaluate(expression: string): Promise<unknown> {
    const wish = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
    const answer = await this.#browser.send('Runtime.evaluate', wish, this.#session);
    const { result, exceptionDetails } = answer as Evaluation;
    if (exceptionDetails === undefined) return result.value;
    throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  }

  /** The text that a person sees. */
  async text(): Promise<string> {
    return String(await this.evaluate('document.body.innerText'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.send('Target.disposeBrowserContext', { browserContextId: this.#context });
  }
}
