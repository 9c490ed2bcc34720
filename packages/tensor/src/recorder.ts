import type { Value } from "./value.js";

/** An operation that was carried out, for the tape. */
export interface Entry {
  readonly name: string;
  readonly inputs: readonly Value[];
  readonly output: Value;
  /** Further results that only the gradient needs. */
  readonly saved: readonly Value[];
  readonly attributes: unknown;
}

/** A tape that records. */
export interface Recorder {
  /** Whether the gradient at a value is wanted. */
  tracks(value: Value): boolean;
  add(entry: Entry): void;
}

let recorders: readonly Recorder[] = [];

export function isRecording(): boolean {
  return recorders.length > 0;
}

/** Whether a tape wants to know of an operation on these values. */
export function isTracked(values: readonly Value[]): boolean {
  for (let i = 0; i < recorders.length; i++)
    for (let j = 0; j < values.length; j++) if (recorders[i]!.tracks(values[j]!)) return true;
  return false;
}

export function record(entry: Entry): void {
  for (let i = 0; i < recorders.length; i++) {
    const recorder = recorders[i]!;
    for (let j = 0; j < entry.inputs.length; j++)
      if (recorder.tracks(entry.inputs[j]!)) {
        recorder.add(entry);
        break;
      }
  }
}

/** Runs a function while one more tape records. */
export function recordingTo<Result>(recorder: Recorder, body: () => Result): Result {
  const before = recorders;
  recorders = [...before, recorder];
  try {
    return body();
  } finally {
    recorders = before;
  }
}

/** Runs a function that no tape records: its results count as constants. */
export function withoutRecording<Result>(body: () => Result): Result {
  const before = recorders;
  recorders = [];
  try {
    return body();
  } finally {
    recorders = before;
  }
}
