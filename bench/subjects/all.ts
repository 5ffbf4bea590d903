/** The subjects by name. */

import type { SubjectName } from '../subject-names.ts';
import { apache } from './apache.ts';
import { haproxy } from './haproxy.ts';
import { nginx } from './nginx.ts';
import { httpProxy3, nodeRelay } from './node-peers.ts';
import { sidekerb } from './sidekerb.ts';
import { squid } from './squid.ts';
import type { Subject } from './subject.ts';

export const SUBJECTS: Readonly<Record<SubjectName, Subject>> = {
  sidekerb,
  nginx,
  haproxy,
  squid,
  apache,
  'node-relay': nodeRelay,
  'http-proxy-3': httpProxy3,
};
