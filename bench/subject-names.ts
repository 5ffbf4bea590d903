/** Names of what is measured, as they stand in the output. How each is started is in `subjects/`. */

export const SUBJECT_NAMES = [
  'sidekerb',
  'nginx',
  'haproxy',
  'squid',
  'apache',
  'node-relay',
  'http-proxy-3',
] as const;

export type SubjectName = (typeof SUBJECT_NAMES)[number];

/** What all others are compared with. */
export const OWN_SUBJECT = 'sidekerb' satisfies SubjectName;

/** What fits into the time of `--quick`. */
export const QUICK_SUBJECTS: readonly SubjectName[] = [
  'sidekerb',
  'nginx',
  'haproxy',
  'node-relay',
  'http-proxy-3',
];
