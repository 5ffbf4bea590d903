/** What the load tells the far end of a tunnel in the first line it sends; both programs speak this. */

export type TunnelJob = 'down' | 'up' | 'echo';

/** `down`: send me so many bytes; `up`: so many follow; `echo`: the same number both ways. */
export interface TunnelOrder {
  readonly job: TunnelJob;
  readonly bytes: number;
}

const ORDER = /^(down|up|echo) (\d{1,12})$/;

/** The longest first line, its end included. */
export const MAX_ORDER_BYTES = 32;

/** One write of bulk bytes. */
export const PIECE_BYTES = 256 * 1024;

export function formatOrder({ job, bytes }: TunnelOrder): string {
  return `${job} ${bytes}\n`;
}

/** The order of a line without its end; undefined when it is none. */
export function parseOrder(line: string): TunnelOrder | undefined {
  const [, job, bytes] = ORDER.exec(line) ?? [];
  if (job === undefined || bytes === undefined) return undefined;
  return { job: job === 'down' ? 'down' : job === 'up' ? 'up' : 'echo', bytes: Number(bytes) };
}

/** Calls `write` with pieces that are `bytes` long together, as long as it answers true; resumed by the answer. */
export function sendPieces(bytes: number, write: (piece: Buffer) => boolean): () => void {
  const piece = Buffer.alloc(PIECE_BYTES, 'x');
  let left = bytes;
  return () => {
    while (left > 0) {
      const next = left < piece.length ? piece.subarray(0, left) : piece;
      left -= next.length;
      if (!write(next)) return;
    }
  };
}
