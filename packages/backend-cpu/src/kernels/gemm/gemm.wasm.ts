import type { DType } from "@backplane/core";
import { f32, i32, type Local } from "../../wasm/index.js";
import { elementsOf } from "../convert/elements.js";
import { epilogueFunction, hasEpilogue } from "../epilogue.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { finishRows } from "./finish.js";
import { packFunction } from "./pack.js";
import { type StripKernel, stripKernel } from "./strips.js";
import { blockFunction, spareBytes, type Tile, tileName } from "./tile.js";
import { blocking, elementBytes } from "./variants.js";

/**
 * Packs a block of op(A) and a block of op(B) into panels, for each matrix of a batch. The first
 * chunks are for A: `aChunks` for each of `aCopies` matrices; the others for B.
 */
const packTypes = {
  k: "i32",
  aChunks: "i32",
  bChunks: "i32",
  aCopies: "i32",
  /** Address, bytes from line to line (or across k), bytes from matrix to matrix. */
  a: "i32",
  aStride: "i32",
  aBatch: "i32",
  aAlongK: "i32",
  aLines: "i32",
  aPanels: "i32",
  /** 1 where its last two panels are alike high: see `panelHeight`. */
  aEven: "i32",
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  bAlongK: "i32",
  bLines: "i32",
  bPanels: "i32",
  /** Bytes of panels from matrix to matrix. */
  aPanelsBatch: "i32",
  bPanelsBatch: "i32",
} as const;

const multiplyTypes = {
  /** Packed panels, and bytes from matrix to matrix (0: one for all). */
  a: "i32",
  b: "i32",
  aBatch: "i32",
  bBatch: "i32",
  m: "i32",
  n: "i32",
  k: "i32",
  c: "i32",
  cBatch: "i32",
  stride: "i32",
  alpha: "i32",
  beta: "i32",
  /** Rows and columns of C for one chunk, multiples of the tile; and how many such parts there are. */
  chunkRows: "i32",
  chunkColumns: "i32",
  rowChunks: "i32",
  columnChunks: "i32",
  /** See `EpilogueParameters`. */
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

const smallTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  a: "i32",
  aStride: "i32",
  aBatch: "i32",
  aAlongK: "i32",
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  bAlongK: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "i32",
  beta: "i32",
  batch: "i32",
  matricesPerChunk: "i32",
  /** Places in the scratch. */
  bPanels: "i32",
  sums: "i32",
  sumsStride: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

/** The kernels of one variant for one element type. */
export interface GemmKernels {
  readonly pack: Kernel<typeof packTypes>;
  readonly multiply: Kernel<typeof multiplyTypes>;
  /** Packs and multiplies whole small matrices. */
  readonly small: Kernel<typeof smallTypes>;
  /** Multiplies packed A by columns of B that it packs itself. */
  readonly strip: StripKernel;
}

const one = 0x3f800000;

export function gemmKernels(tile: Tile, dtype: DType, requires: "relaxedSimd" | undefined): GemmKernels {
  const label = `${dtype}_${tileName(tile)}`;
  const when = requires === undefined ? {} : { requires };
  return {
    pack: packKernel(label, tile, dtype, when),
    multiply: multiplyKernel(label, tile, when),
    small: smallKernel(label, tile, dtype, when),
    strip: stripKernel(tile, dtype, requires),
  };
}

interface When {
  readonly requires?: "relaxedSimd";
}

function packKernel(label: string, tile: Tile, dtype: DType, when: When): Kernel<typeof packTypes> {
  const bytes = elementBytes[dtype];
  return defineKernel({
    ...when,
    name: `gemm_pack_${label}`,
    parameters: packTypes,
    emit(f, { parameters, chunk, module }) {
      const { k, aChunks, bChunks, aCopies } = parameters;
      const side = (
        number: Local<"i32">,
        chunks: Local<"i32">,
        width: number,
        even: Local<"i32">,
        names: Readonly<
          Record<"source" | "stride" | "batch" | "alongK" | "lines" | "panels" | "panelsBatch", Local<"i32">>
        >,
      ): void => {
        const { source, stride, batch, alongK, lines, panels, panelsBatch } = names;
        const chunkLines = blocking.packPanels * width;
        const matrix = f.let(i32.divU(number, chunks));
        const first = f.let(i32.mul(i32.remU(number, chunks), chunkLines));
        const step = f.let(i32.const(bytes));
        f.if(alongK, () => f.set(step, stride));
        f.call(
          packFunction(module, dtype, width),
          i32.add(source, i32.add(i32.mul(matrix, batch), i32.mul(first, step))),
          stride,
          i32.minU(i32.sub(lines, first), chunkLines),
          k,
          i32.add(panels, i32.add(i32.mul(matrix, panelsBatch), i32.mul(i32.mul(first, k), 4))),
          alongK,
          even,
        );
      };
      const aTotal = f.let(i32.mul(aChunks, aCopies));
      const { a, aStride, aBatch, aAlongK, aLines, aPanels, aPanelsBatch } = parameters;
      const { b, bStride, bBatch, bAlongK, bLines, bPanels, bPanelsBatch } = parameters;
      f.if(
        i32.ltU(chunk, aTotal),
        () =>
          side(chunk, aChunks, tile.rows, parameters.aEven, {
            ...{ source: a, stride: aStride, batch: aBatch, alongK: aAlongK },
            ...{ lines: aLines, panels: aPanels, panelsBatch: aPanelsBatch },
          }),
        () =>
          side(f.let(i32.sub(chunk, aTotal)), bChunks, tile.columns, f.let(i32.const(0)), {
            ...{ source: b, stride: bStride, batch: bBatch, alongK: bAlongK },
            ...{ lines: bLines, panels: bPanels, panelsBatch: bPanelsBatch },
          }),
      );
    },
  });
}

/** C = alpha * (packed A) * (packed B) + beta * C in f32, and its epilogue, for a part of one matrix of the batch. */
function multiplyKernel(label: string, tile: Tile, when: When): Kernel<typeof multiplyTypes> {
  return defineKernel({
    ...when,
    name: `gemm_multiply_${label}`,
    parameters: multiplyTypes,
    scratchBytes: spareBytes(tile),
    emit(f, { parameters, chunk, scratch, module }) {
      const { a, b, aBatch, bBatch, m, n, k, c, cBatch, stride, alpha, beta } = parameters;
      const { chunkRows, chunkColumns, rowChunks, columnChunks } = parameters;
      const rest = f.let(i32.divU(chunk, rowChunks));
      const row = f.let(i32.mul(i32.remU(chunk, rowChunks), chunkRows));
      const column = f.let(i32.mul(i32.remU(rest, columnChunks), chunkColumns));
      const matrix = f.let(i32.divU(rest, columnChunks));
      const lineBytes = f.let(i32.shl(k, 2));
      const corner = i32.add(i32.mul(row, stride), i32.shl(column, 2));
      const rows = f.let(i32.minU(i32.sub(m, row), chunkRows));
      const columns = f.let(i32.minU(i32.sub(n, column), chunkColumns));
      const target = f.let(i32.add(c, i32.add(i32.mul(matrix, cBatch), corner)));
      f.call(
        blockFunction(module, tile),
        i32.add(a, i32.add(i32.mul(matrix, aBatch), i32.mul(row, lineBytes))),
        i32.mul(lineBytes, tile.rows),
        i32.add(b, i32.add(i32.mul(matrix, bBatch), i32.mul(column, lineBytes))),
        k,
        rows,
        columns,
        target,
        stride,
        alpha,
        beta,
        scratch,
        0,
      );
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(column, biasStep)));
      f.if(hasEpilogue(parameters), () =>
        f.call(epilogueFunction(module), target, stride, rows, columns, bias, biasStep, activation),
      );
    },
  });
}

function smallKernel(label: string, tile: Tile, dtype: DType, when: When): Kernel<typeof smallTypes> {
  return defineKernel({
    ...when,
    name: `gemm_small_${label}`,
    parameters: smallTypes,
    scratchBytes: blocking.smallBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const { m, n, k, a, aStride, aBatch, aAlongK, b, bStride, bBatch, bAlongK } = parameters;
      const { c, stride, cBatch, alpha, beta, batch, matricesPerChunk } = parameters;
      const elements = elementsOf(f, dtype);
      const aPanels = f.let(i32.add(scratch, spareBytes(tile)));
      const bPanels = f.let(i32.add(scratch, parameters.bPanels));
      const sums = f.let(i32.add(scratch, parameters.sums));
      const first = f.let(i32.mul(chunk, matricesPerChunk));
      const end = f.let(i32.minU(batch, i32.add(first, matricesPerChunk)));
      const block = blockFunction(module, tile);
      const aPanelBytes = f.let(i32.mul(k, 4 * tile.rows));
      f.forLocal(first, end, () => {
        const aMatrix = i32.add(a, i32.mul(first, aBatch));
        f.call(packFunction(module, dtype, tile.rows), aMatrix, aStride, m, k, aPanels, aAlongK, 1);
        const bMatrix = i32.add(b, i32.mul(first, bBatch));
        f.call(packFunction(module, dtype, tile.columns), bMatrix, bStride, n, k, bPanels, bAlongK, 0);
        const cMatrix = f.let(i32.add(c, i32.mul(first, cBatch)));
        if (dtype === "f32") {
          f.call(block, aPanels, aPanelBytes, bPanels, k, m, n, cMatrix, stride, alpha, beta, scratch, 1);
          const { bias, biasStep, activation } = parameters;
          f.if(hasEpilogue(parameters), () =>
            f.call(epilogueFunction(module), cMatrix, stride, m, n, bias, biasStep, activation),
          );
        } else {
          const { sumsStride } = parameters;
          f.call(block, aPanels, aPanelBytes, bPanels, k, m, n, sums, sumsStride, one, 0, scratch, 1);
          const alphaFloat = f.let(f32.reinterpretI32(alpha));
          const betaFloat = f.let(f32.reinterpretI32(beta));
          finishRows(f, module, elements, {
            ...{ sums, sumsStride, m, n, c: cMatrix, stride, epilogue: parameters },
            ...{ alpha: alphaFloat, beta: betaFloat },
          });
        }
      });
    },
  });
}
