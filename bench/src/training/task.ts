/** What everybody trains: on the same hundred images again and again, from the same parameters. */

export const modelNames = ["mlp", "cnn"] as const;

export type ModelName = (typeof modelNames)[number];

export const batch = 100;
export const side = 28;
export const classes = 10;
/** Of stochastic gradient descent: velocity = momentum * velocity + gradient, parameter -= rate * velocity. */
export const optimizer = { rate: 0.01, momentum: 0.9 } as const;

/** Pixels that any two machines draw alike, from 0 to 255: `batch` images. */
export const pixels: Uint8Array = Uint8Array.from(
  { length: batch * side * side },
  (_, i) => (Math.imul(i, 0x9e3779b1) >>> 16) & 255,
);

export const labels: Int32Array = Int32Array.from({ length: batch }, (_, i) => i % classes);

/** The values of a parameter at the start. */
export interface Parameter {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export interface Task {
  readonly model: ModelName;
  /**
   * Weight and bias of each layer in the order of the layers. Weights of a linear layer are inputs x outputs, those of a
   * convolution outputs x inputs x height x width.
   */
  readonly parameters: readonly Parameter[];
}

/** A model that somebody trains. */
export interface Trainee {
  /** Does a step. It may return before the device has done it. */
  step(): void | Promise<void>;
  /** Waits until all steps are done. */
  settle(): void | Promise<void>;
  /** Waits, and returns the mean cross entropy of the images. */
  loss(): Promise<number>;
  close(): void | Promise<void>;
  /** Times steps for so many milliseconds at least, where the calls of this process would take part of the time. */
  sample?(milliseconds: number): Promise<Sample>;
}

export interface Sample {
  /** Milliseconds of a step. */
  readonly step: number;
  /** Of these, in which the host makes calls. */
  readonly host: number;
}

/** A device must not fall behind by seconds. */
export const stepsAhead = 16;
