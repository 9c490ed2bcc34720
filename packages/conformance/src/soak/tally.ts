/** Counts of the work done and of the findings. */
export interface Tally {
  readonly calls: Record<string, number>;
  /** Results compared: outputs of operations, and reads of bytes that were written, copied or filled. */
  results: number;
  elements: number;
  /** Outputs of operations that were not compared; see `Verdict`. */
  skipped: number;
  wrong: number;
  /** Descriptions of the first few errors. */
  readonly complaints: string[];
  uploadedBytes: number;
  downloadedBytes: number;
}

export function emptyTally(): Tally {
  const counts = { results: 0, elements: 0, skipped: 0, wrong: 0, uploadedBytes: 0, downloadedBytes: 0 };
  return { calls: {}, ...counts, complaints: [] };
}

/** Complaints kept at most. */
export const complaintsKept: number = 20;
