import { dtypeBytes, type FloatType } from "@backplane/core";
import { f32, i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { finishRows } from "./finish.js";
import { type StripKernel, stripKernel } from "./strips.wasm.js";
import { blockFunction, spareBytes, type Tile, tileName } from "./tile.js";
import { blocking } from "./variants.js";

/** Packs lines of op(A) or of op(B) into panels, for each matrix of a batch: `matrixChunks` for each. */
const packTypes = {
  k: "i32",
  matrixChunks: "i32",
  /** Address, bytes from line to line (or across k), bytes from matrix to matrix. */
  source: "i32",
  stride: "i32",
  batch: "i32",
  alongK: "i32",
  lines: "i32",
  panels: "i32",
  /** Bytes of panels from matrix to matrix. */
  panelsBatch: "i32",
  /** 1 if the last two panels have the same height: see `panelHeight`. */
  even: "i32",
} as const;

const multiplyTypes = {
  /** op(A) as it lies, see `Lines`. */
  a: "i32",
  aStride: "i32",
  aBatch: "i32",
  aAlongK: "i32",
  aLineStep: "i32",
  /** Packed panels of op(B), and bytes from matrix to matrix (0: one for all). */
  b: "i32",
  bBatch: "i32",
  m: "i32",
  n: "i32",
  k: "i32",
  c: "i32",
  cBatch: "i32",
  stride: "i32",
  alpha: "i32",
  beta: "i32",
  /** Rows and columns of C for one chunk, multiples of the tile; and the number of such parts. */
  chunkRows: "i32",
  chunkColumns: "i32",
  rowChunks: "i32",
  columnChunks: "i32",
  /** The parts after the first `earlyChunks` have `lateRows` rows instead of `chunkRows`. */
  earlyChunks: "i32",
  lateRows: "i32",
  /** Room of worker 0 for the panels of A of a chunk; bytes from worker to worker. */
  rooms: "i32",
  roomBytes: "i32",
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
  readonly packA: Kernel<typeof packTypes>;
  readonly packB: Kernel<typeof packTypes>;
  /** Multiplies rows of A that it packs itself by packed B. */
  readonly multiply: Kernel<typeof multiplyTypes>;
  /** Packs and multiplies whole small matrices. */
  readonly small: Kernel<typeof smallTypes>;
  /** Multiplies packed A by columns of B that it packs itself. */
  readonly strip: StripKernel;
}

const one = 0x3f800000;

export function gemmKernels(tile: Tile, dtype: FloatType, requires: "relaxedSimd" | undefined): GemmKernels {
  const label = `${dtype}_${tileName(tile)}`;
  const when = requires === undefined ? {} : { requires };
  return {
    packA: packKernel(`a_${label}`, tile.rows, dtype, when),
    packB: packKernel(`b_${label}`, tile.columns, dtype, when),
    multiply: multiplyKernel(label, tile, dtype, when),
    small: smallKernel(label, tile, dtype, when),
    strip: stripKernel(tile, dtype, requires),
  };
}

interface When {
  readonly requires?: "relaxedSimd";
}

function packKernel(label: string, width: number, dtype: FloatType, when: When): Kernel<typeof packTypes> {
  return defineKernel({
    ...when,
    name: `gemm_pack_${label}`,
    parameters: packTypes,
    emit(f, { parameters, chunk, module }) {
      const { k, matrixChunks, source, stride, batch, alongK, lines, panels, panelsBatch, even } = parameters;
      const chunkLines = blocking.packPanels * width;
      const matrix = f.let(i32.divU(chunk, matrixChunks));
      const first = f.let(i32.mul(i32.remU(chunk, matrixChunks), chunkLines));
      const step = f.let(i32.const(dtypeBytes[dtype]));
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
    },
  });
}

/**
 * C = alpha * op(A) * (packed B) + beta * C in f32, and its epilogue, for a part of one matrix of the batch. A
 * chunk packs its rows of op(A) itself, into a room of its worker's that stays in the second-level cache.
 */
function multiplyKernel(
  label: string,
  tile: Tile,
  dtype: FloatType,
  when: When,
): Kernel<typeof multiplyTypes> {
  return defineKernel({
    ...when,
    name: `gemm_multiply_${label}`,
    parameters: multiplyTypes,
    scratchBytes: spareBytes(tile),
    emit(f, { parameters, chunk, scratch, worker, module }) {
      const { a, aStride, aBatch, aAlongK, aLineStep, b, bBatch, m, n, k } = parameters;
      const { c, cBatch, stride, alpha, beta } = parameters;
      const { chunkRows, chunkColumns, rowChunks, columnChunks, earlyChunks, lateRows } = parameters;
      const rest = f.let(i32.divU(chunk, rowChunks));
      const rowChunk = f.let(i32.remU(chunk, rowChunks));
      const row = f.let(i32.mul(rowChunk, chunkRows));
      const mostRows = f.let(chunkRows);
      f.if(i32.geU(rowChunk, earlyChunks), () => {
        const late = i32.mul(i32.sub(rowChunk, earlyChunks), lateRows);
        f.set(row, i32.add(i32.mul(earlyChunks, chunkRows), late));
        f.set(mostRows, lateRows);
      });
      const column = f.let(i32.mul(i32.remU(rest, columnChunks), chunkColumns));
      const matrix = f.let(i32.divU(rest, columnChunks));
      const lineBytes = f.let(i32.shl(k, 2));
      const corner = i32.add(i32.mul(row, stride), i32.shl(column, 2));
      const rows = f.let(i32.minU(i32.sub(m, row), mostRows));
      const columns = f.let(i32.minU(i32.sub(n, column), chunkColumns));
      const target = f.let(i32.add(c, i32.add(i32.mul(matrix, cBatch), corner)));
      const panels = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      const source = i32.add(a, i32.add(i32.mul(matrix, aBatch), i32.mul(row, aLineStep)));
      f.call(packFunction(module, dtype, tile.rows), source, aStride, rows, k, panels, aAlongK, 1);
      f.call(
        blockFunction(module, tile),
        panels,
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
        1,
      );
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(column, biasStep)));
      f.if(hasEpilogue(parameters), () =>
        f.call(epilogueFunction(module), target, stride, rows, columns, bias, biasStep, activation),
      );
    },
  });
}

function smallKernel(label: string, tile: Tile, dtype: FloatType, when: When): Kernel<typeof smallTypes> {
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
        if (!elements.converted) {
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
