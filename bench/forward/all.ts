/** The forward proxies by name. */

import type { ForwardName } from '../scenario-names.ts';
import { cntlmForward } from './cntlm.ts';
import { cypressForward } from './cypress-ntlm-auth.ts';
import type { ForwardSubject } from './forward-subject.ts';
import { haproxyForward } from './haproxy.ts';
import { sidekerbForward } from './sidekerb.ts';
import { squidForward } from './squid.ts';
import { tinyproxyForward } from './tinyproxy.ts';

export const FORWARD_SUBJECTS: Readonly<Record<ForwardName, ForwardSubject>> = {
  sidekerb: sidekerbForward,
  haproxy: haproxyForward,
  squid: squidForward,
  tinyproxy: tinyproxyForward,
  cntlm: cntlmForward,
  'cypress-ntlm-auth': cypressForward,
};
