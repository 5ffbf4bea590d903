/** What the guard said of one login, as the steps of an opening carry it. */
import type { LoginTicket } from '../auth/guard-ticket.ts';

export interface Admitted {
  readonly kind: 'go' | 'settle' | 'probe';
  readonly ticket: LoginTicket;
  /** Where a probe goes, when this login is one and there was a success before. */
  readonly probeTarget: string | undefined;
}
