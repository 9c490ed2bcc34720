import type { Capabilities, ComputeBackend, DType, OperationName } from "@backplane/core";
import type { Arbitrary } from "fast-check";

/** One sentence that every backend must satisfy, and how to try to refute it. */
export interface Law {
  /** What it is about: an operation, or a side of the contract such as `memory`. */
  readonly topic: string;
  /** The sentence. Unique within the topic and element type. */
  readonly name: string;
  readonly operation?: OperationName;
  readonly dtype?: DType;
  /**
   * Why the law does not bind a backend, from nothing but what that backend declares; undefined
   * where it does. A law with an operation and element type that the backend does not support is
   * skipped before this is asked.
   */
  readonly exempt?: (capabilities: Capabilities, backend: ComputeBackend) => string | undefined;
  /** Throws where the law is broken. */
  readonly run: (context: LawContext) => Promise<void>;
}

/** What a law works with while it runs. */
export interface LawContext {
  readonly law: Law;
  /** Initialised, shared by all laws. Leave it usable and free what you allocate. */
  readonly backend: ComputeBackend;
  /** A fresh initialised instance, disposed of when the law ends. */
  readonly fresh: () => Promise<ComputeBackend>;
  /** A fresh instance before `init()`, disposed of when the law ends. */
  readonly unopened: () => Promise<ComputeBackend>;
  /** Tries the property on random cases; on failure shrinks, and throws a `LawFailure`. Once per law. */
  readonly forAll: <Case>(
    arbitrary: Arbitrary<Case>,
    property: (value: Case) => Promise<void>,
    options?: ForAllOptions<Case>,
  ) => Promise<void>;
  /** Tries the property on each of a few fixed cases; throws a `LawFailure`. Instead of `forAll`. */
  readonly forEach: <Case>(cases: readonly Case[], property: (value: Case) => Promise<void>) => Promise<void>;
  /** Notes how much of its tolerance a result used, for reports; the largest is kept. */
  readonly observe: (errorOverTolerance: number) => void;
  /** Of `fc.commands`, where a replay was asked for. */
  readonly replayPath: string | undefined;
}

export interface ForAllOptions<Case> {
  /** Cases to try before the random ones. */
  readonly examples?: readonly Case[];
  /** Multiplies the number of random cases; below 1 for costly ones. Default 1. */
  readonly runs?: number;
  /** One line that shows a case. Default JSON. */
  readonly show?: (value: Case) => string;
}

/** How to see a failure again; printed with it as one line of JSON. */
export interface Replay {
  /** As given by `lawId`. */
  readonly law: string;
  readonly seed: number;
  /** Where in the search the shrunk case lies. */
  readonly path?: string;
  readonly replayPath?: string;
}

/** A law that a backend has broken. The message has the case, what went wrong and the replay line. */
export class LawFailure extends Error {
  readonly replay: Replay;

  constructor(message: string, replay: Replay, cause: unknown) {
    super(message, { cause });
    this.name = "LawFailure";
    this.replay = replay;
  }
}

/** Name of a law that is unique in the suite, such as `gemm f32: exact on integers`. */
export function lawId(law: Law): string {
  return `${law.topic}${law.dtype === undefined ? "" : ` ${law.dtype}`}: ${law.name}`;
}
