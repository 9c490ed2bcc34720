import { BackendError } from "../../errors.js";
import { describe } from "../../handles.js";
import type { QuantizedMatrix } from "./format.js";

/** Formats of the weights in GGUF files that `quantizedGemm` takes without loss. */
export type GgufFormat = "Q4_0" | "Q8_0";

interface Layout {
  readonly bits: 4 | 8;
  /** Moves the 32 weights of one block from their place in the file to their place in B. */
  readonly move: (from: Uint8Array, to: Uint8Array) => void;
}

/** Weights of a block. */
const BLOCK = 32;
/** Bytes of its scale, an f16 that comes first. */
const SCALE = 2;

/**
 * Both as in ggml (`ggml-common.h`, `dequantize_row_q4_0` and `dequantize_row_q8_0` in `ggml-quants.c`). Q4_0: weight
 * = scale * (half byte - 8); the low halves of 16 bytes are weights 0 to 15, the high halves 16 to 31. Q8_0: weight =
 * scale * signed byte.
 */
const layouts: Readonly<Record<GgufFormat, Layout>> = {
  Q4_0: {
    bits: 4,
    move(from, to) {
      for (let i = 0; i < 8; i++) {
        const [first, second] = [from[2 * i]!, from[2 * i + 1]!];
        to[i] = (first & 15) | ((second & 15) << 4);
        to[i + 8] = (first >> 4) | (second & 0xf0);
      }
    },
  },
  Q8_0: {
    bits: 8,
    // From signed numbers to those around 128.
    move(from, to) {
      for (let i = 0; i < BLOCK; i++) to[i] = from[i]! ^ 0x80;
    },
  },
};

export const ggufFormats: readonly GgufFormat[] = Object.keys(layouts) as GgufFormat[];

/**
 * Turns the bytes of a tensor in a GGUF file, n rows of k weights with k a multiple of 32, into operands of
 * `quantizedGemm`: B, and its scales in f16. No weight changes. Throws `INVALID_ARGUMENT`.
 */
export function fromGguf(
  format: GgufFormat,
  bytes: Uint8Array,
): QuantizedMatrix & { readonly scales: Uint16Array<ArrayBuffer> } {
  if (!Object.hasOwn(layouts, format))
    throw refused("format", `is ${describe(format)}; allowed: ${ggufFormats.join(", ")}`);
  const { bits, move } = layouts[format];
  if (!(bytes instanceof Uint8Array)) throw refused("bytes", `is ${describe(bytes)}; allowed: a Uint8Array`);
  const size = (BLOCK * bits) / 8;
  const stride = SCALE + size;
  if (bytes.length % stride !== 0)
    throw refused(
      "bytes",
      `has ${bytes.length}; allowed: a multiple of ${stride}, the bytes of a ${format} block`,
    );
  const blocks = bytes.length / stride;
  const b = new Uint8Array(blocks * size);
  const scales = new Uint16Array(blocks);
  for (let i = 0; i < blocks; i++) {
    const at = i * stride;
    scales[i] = bytes[at]! | (bytes[at + 1]! << 8);
    move(bytes.subarray(at + SCALE, at + stride), b.subarray(i * size, (i + 1) * size));
  }
  return { bits, block: BLOCK, scaleType: "f16", b, scales };
}

function refused(argument: string, message: string): BackendError {
  return new BackendError("INVALID_ARGUMENT", `fromGguf: ${argument} ${message}`, {
    operation: "fromGguf",
    argument,
  });
}
