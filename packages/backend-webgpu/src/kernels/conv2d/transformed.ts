import { type Conv2dProblem, type ConvolutionTile, convolutionTransforms } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { runGemm } from "../gemm/index.js";
import type { ConvResult } from "./results.wgsl.js";
import { filterTransformProgram, inputTransformProgram, outputTransformProgram } from "./transforms.wgsl.js";

type Problem = Conv2dProblem<DeviceMemory>;

type Sides = Pick<Problem, "batch" | "inChannels" | "outChannels" | "outHeight" | "outWidth">;

/** Scratch for transformed inputs, their copies and results, in bytes; filters come on top. */
const MOST_SCRATCH = 2 ** 27;

/** Channels that products may copy operands in multiples of, and outputs: other numbers cost a copy. */
const WHOLE_CHANNELS = 16;
const WHOLE_OUTPUTS = 4;

/** Places of a transformed tile: as many products of matrices. */
function placesOf(tile: ConvolutionTile): number {
  return convolutionTransforms[tile].input.length ** 2;
}

/** Rows and columns of tiles in an image, and their number in all images. */
export function tilesOf(
  { batch, outHeight, outWidth }: Sides,
  tile: ConvolutionTile,
): { readonly down: number; readonly across: number; readonly total: number } {
  const { outputs } = convolutionTransforms[tile];
  const [down, across] = [Math.ceil(outHeight / outputs), Math.ceil(outWidth / outputs)];
  return { down, across, total: batch * down * across };
}

/** Columns of the large tiles of products: a last one with few columns takes as long as others. */
const WHOLE_COLUMNS = 128;

/** Tiles to compute at a time, whole quads, as scratch has room for them; 0 if it cannot hold a quad. */
export function tilesAtATime(problem: Sides, tile: ConvolutionTile, { limits }: DeviceFeatures): number {
  const { inChannels, outChannels } = problem;
  const bytes = 4 * placesOf(tile);
  const binding = limits.maxStorageBufferBindingSize;
  if (bytes * inChannels * outChannels > binding) return 0;
  const padded = WHOLE_CHANNELS * Math.ceil(inChannels / WHOLE_CHANNELS);
  const isWhole = padded === inChannels && outChannels % WHOLE_OUTPUTS === 0;
  const most = Math.min(
    MOST_SCRATCH / (bytes * (inChannels + outChannels + (isWhole ? 0 : padded))),
    binding / (bytes * Math.max(padded, outChannels)),
  );
  const { total } = tilesOf(problem, tile);
  const unit = most < WHOLE_COLUMNS ? 4 : WHOLE_COLUMNS;
  return Math.min(4 * Math.ceil(total / 4), unit * Math.floor(most / unit));
}

/** By features of a device: the same without products that split numbers. */
const withoutSplitting = new WeakMap<DeviceFeatures, DeviceFeatures>();

/**
 * For products of one piece after another, which use the same scratch. They are plain: the bound of sums by transforms
 * has no room for that of split numbers, and a filter would be split again for each piece.
 */
class ProductContext implements KernelContext {
  readonly features: DeviceFeatures;
  readonly #context: KernelContext;
  #free: BufferRegion[] = [];
  #taken: BufferRegion[] = [];

  constructor(context: KernelContext) {
    this.#context = context;
    const { features } = context;
    if (features.splitsProducts !== true) {
      this.features = features;
      return;
    }
    const plain = withoutSplitting.get(features) ?? { ...features, splitsProducts: false };
    withoutSplitting.set(features, plain);
    this.features = plain;
  }

  /** What was taken may be used again. */
  rewind(): void {
    this.#free.push(...this.#taken);
    this.#taken = [];
  }

  scratch(bytes: number): BufferRegion {
    const at = this.#free.findIndex(({ byteLength }) => byteLength >= bytes);
    const region = at < 0 ? this.#context.scratch(bytes) : this.#free.splice(at, 1)[0]!;
    this.#taken.push(region);
    return region.byteLength === bytes ? region : { ...region, byteLength: bytes };
  }

  readonly dispatch: KernelContext["dispatch"] = (...call) => this.#context.dispatch(...call);
  readonly copy: KernelContext["copy"] = (...call) => this.#context.copy(...call);
  readonly fill: KernelContext["fill"] = (...call) => this.#context.fill(...call);
}

/** Enqueues a convolution by transforms: of the filter, and then of some tiles at a time. */
export function runTransformed(
  context: KernelContext,
  problem: Problem,
  tile: ConvolutionTile,
  form: ConvResult,
): void {
  const { input, filter, bias, output, inChannels, outChannels, height, width, top, left } = problem;
  const { outHeight, outWidth } = problem;
  const places = placesOf(tile);
  const { down, across, total } = tilesOf(problem, tile);
  const pitch = tilesAtATime(problem, tile, context.features);
  const filters = context.scratch(4 * places * inChannels * outChannels);
  const inputs = context.scratch(4 * places * inChannels * pitch);
  const sums = context.scratch(4 * places * outChannels * pitch);
  const groups = (count: number) => Math.ceil(count / WORKGROUP_SIZE);
  const products = new ProductContext(context);
  context.dispatch(
    filterTransformProgram(tile),
    { filter_: filter, transformed: filters },
    { channels: inChannels, outputs: outChannels },
    groups(inChannels * outChannels),
  );
  for (let first = 0; first < total; first += pitch) {
    const tiles = Math.min(pitch, total - first);
    context.dispatch(
      inputTransformProgram(tile),
      { input, transformed: inputs },
      {
        ...{ channels: inChannels, height, width, top, left },
        ...{ tiles_y: down, tiles_x: across, first, tiles, pitch },
      },
      groups(inChannels * tiles),
    );
    products.rewind();
    // The last columns of a quad may be left of what scratch had before; no other column depends on them.
    runGemm(products, {
      ...{ dtype: "f32", batch: places, m: outChannels, n: 4 * Math.ceil(tiles / 4), k: inChannels },
      ...{ alpha: 1, beta: 0, transA: true, transB: false },
      ...{ lda: outChannels, ldb: pitch, ldc: pitch },
      ...{ strideA: inChannels * outChannels, strideB: inChannels * pitch, strideC: outChannels * pitch },
      ...{ a: filters, b: inputs, c: sums },
      ...{ bias: undefined, activation: undefined },
    });
    context.dispatch(
      outputTransformProgram({ ...form, tile }),
      { sums, ...(bias === undefined ? {} : { bias }), output },
      {
        ...{ out_height: outHeight, out_width: outWidth, groups: 1, group_outputs: outChannels },
        ...{ tiles_y: down, tiles_x: across, first, tiles, pitch },
      },
      groups(outChannels * tiles),
    );
  }
}
