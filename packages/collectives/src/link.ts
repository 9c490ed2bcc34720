/** How elements of all ranks become one. */
export type ReductionKind = "sum" | "max" | "min";

/** Typed arrays that ranks can reduce. */
export type Reducible = Float32Array | Float64Array | Int32Array;

/**
 * What a communicator needs of the engine that moves its bytes. Sizes agree on all ranks, and every rank makes the same
 * calls in the same order, one after the other. Promises reject with a `CommunicationError` or never, and leave arrays
 * as they may be.
 */
export interface Link {
  readonly rank: number;
  readonly size: number;
  /** Replaces the elements by the reduction of those of all ranks, with the same bits on each. */
  allReduce(values: Reducible, kind: ReductionKind, wait: Wait): Promise<void>;
  /** Copies the bytes of the rank `root` to all others. */
  broadcast(bytes: Uint8Array, root: number, wait: Wait): Promise<void>;
  /** Fills `output`, which is `size` times as long as `input`, with the inputs of all ranks, in their order. */
  allGather(input: Uint8Array, output: Uint8Array, wait: Wait): Promise<void>;
  /** Reduces `input`, which is `size` times as long as `output`; part number `rank` of that is the output. */
  reduceScatter(input: Reducible, output: Reducible, kind: ReductionKind, wait: Wait): Promise<void>;
  send(bytes: Uint8Array, to: number, tag: number, wait: Wait): Promise<void>;
  receive(bytes: Uint8Array, from: number, tag: number, wait: Wait): Promise<void>;
  /** Divides the ranks by color, once all are in the call. A negative color is that of no group. */
  split(color: number, key: number): Link | undefined;
  /** Ends the link, once all are in the call. */
  release(): void;
}

/** What is waited for: a name for errors, and whether others may come late or all are there. */
export interface Wait {
  readonly operation: string;
  /** True: others may come late, so it is polled seldom. False: bytes are moving, so it is polled all the time. */
  readonly isPatient: boolean;
}

/** The link of a program without others. */
export class SoloLink implements Link {
  readonly rank = 0;
  readonly size = 1;

  async allReduce(): Promise<void> {}

  async broadcast(): Promise<void> {}

  async allGather(input: Uint8Array, output: Uint8Array): Promise<void> {
    output.set(input);
  }

  async reduceScatter(input: Reducible, output: Reducible): Promise<void> {
    output.set(input);
  }

  async send(): Promise<void> {
    throw new Error("internal: there is nobody to send to");
  }

  async receive(): Promise<void> {
    throw new Error("internal: there is nobody to receive from");
  }

  split(color: number): Link | undefined {
    return color < 0 ? undefined : new SoloLink();
  }

  release(): void {}
}
