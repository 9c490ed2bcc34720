/** A model that is ready to write. */
export interface Decoder {
  readonly name: string;
  /** The logits after these tokens, which are passed one by one into an empty cache. */
  logits(tokens: readonly number[]): Promise<Float32Array>;
  /** Writes `count` tokens from place `first` on, and returns the seconds that each takes. */
  decode(first: number, count: number): Promise<number>;
  close(): Promise<void>;
}
