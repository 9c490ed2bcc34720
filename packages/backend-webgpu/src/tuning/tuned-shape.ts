/** The facts on which a choice between variants was based, by name. */
export type TunedShape = Readonly<
  Record<string, string | number | boolean | WindowShape | ImageShape | undefined>
>;

/** Of a convolution with one input channel for each group. */
export interface WindowShape {
  readonly side: number;
  readonly stride: number;
}

/** The output of a convolution to which transforms apply. */
export interface ImageShape {
  readonly height: number;
  readonly width: number;
}
