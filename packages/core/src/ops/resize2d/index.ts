import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";
import { type Resizing, resizingOf, resizingTable } from "./resizing.js";

const kindTable = {
  kind: {
    role: "kind",
    kinds: {
      nearest: "the element nearest to the place",
      bilinear: "the four elements around the place, each by how near it is",
    },
  },
} as const;

const operandTable = {
  input: { role: "reads", shape: "inputShape" },
  /** May not overlap the input. */
  output: { role: "writes", shape: "inputShape with the extents of the output" },
  /** Those that are no floats are for `nearest` only. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

const table: typeof kindTable & typeof resizingTable & typeof operandTable = {
  ...kindTable,
  ...resizingTable,
  ...operandTable,
};

/**
 * Images of another height and width. Each element of the output belongs to a place (u, v) in the input, which `coordinates`
 * says; u is limited to [0, height - 1], and v to [0, width - 1].
 *
 * - `nearest` is input[floor(u + 1/2), floor(v + 1/2)]; with `asymmetric` coordinates it is input[floor(u), floor(v)].
 *   Elements are copied bit by bit.
 * - `bilinear`, with i = floor(u), s = u - i, j = floor(v) and t = v - j, is
 *   (1 - s) * ((1 - t) * input[i, j] + t * input[i, j + 1]) + s * ((1 - t) * input[i + 1, j] + t * input[i + 1, j + 1]).
 *   An element whose factor is 0 has no effect, whatever it is.
 *
 * Places are computed exactly. All operands are contiguous.
 *
 * - PyTorch: "nearest" is `asymmetric`, and "nearest-exact" is `half-pixel`; "bilinear" is `align-corners` or `half-pixel`.
 * - TensorFlow.js: alignCorners is `align-corners`, halfPixelCenters is `half-pixel`, and neither is `asymmetric`.
 */
export interface Resize2dArguments extends ArgumentsOf<typeof table> {}

export type Resize2dKind = Resize2dArguments["kind"];

export const resize2dKinds: readonly Resize2dKind[] = Object.keys(table.kind.kinds) as Resize2dKind[];

export type Resize2dType = NonNullable<Resize2dArguments["dtype"]>;

export const resize2dTypes: readonly Resize2dType[] = table.dtype.types;

export interface Resize2dProblem<Memory> extends Resizing {
  readonly dtype: Resize2dType;
  readonly kind: Resize2dKind;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

export const resize2d: Operation<
  Resize2dArguments,
  Resize2dProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "resize2d",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, resize2dKinds);
    const resizing = resizingOf(args, kind, read);
    const { outputs } = resizing;
    const input = read.region(binder, "input", args.input, resizing.inputs, dtype);
    const output = read.region(binder, "output", args.output, outputs, dtype);
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (outputs === 0) return undefined;
    return {
      dtype,
      kind,
      planes: resizing.planes,
      height: resizing.height,
      width: resizing.width,
      inner: resizing.inner,
      outHeight: resizing.outHeight,
      outWidth: resizing.outWidth,
      y: resizing.y,
      x: resizing.x,
      input,
      output,
    };
  },

  /** A multiplication and an addition for each factor of an element, one pair of which belongs to the other axis. */
  flops: ({ kind, dtype, output }) => (kind === "nearest" ? 0 : 8 * elements(output, dtype)),

  /** Of the input, no more than what results are made of. */
  bytes: ({ kind, input, output }) =>
    Math.min(input.byteLength, (kind === "nearest" ? 1 : 4) * output.byteLength) + output.byteLength,
});
