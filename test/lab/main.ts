/**
 * The lab by hand: `node test/lab/main.ts` starts every server, prints where they are, and stops
 * them at the first SIGINT or SIGTERM.
 */
import { once } from 'node:events';
import { LAB_USERS } from './components.ts';
import { possibleComponents, startLab } from './lab.ts';

await using lab = await startLab(possibleComponents());
const { components, folder, certificate, ports } = lab;
console.log(JSON.stringify({ components, folder, certificate, ports, users: LAB_USERS }, null, 2));
// A signal handler does not keep the process alive.
const keepAlive = setInterval(() => undefined, 60_000);
await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
clearInterval(keepAlive);
