import { f32x4, i32, v128 } from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";

const types = {
  input: "i32",
  output: "i32",
  images: "i32",
  /** Of an image, and the bytes of each. */
  rows: "i32",
  rowBytes: "i32",
  /** Bytes of zeros: above an image, below it, and on both sides of each row. */
  above: "i32",
  below: "i32",
  before: "i32",
  after: "i32",
} as const;

export type PaddingTypes = typeof types;

/** Copies images with zeros around them, in one chunk. Writes up to 12 bytes past the end. */
export const paddingKernel: Kernel<PaddingTypes> = defineKernel({
  name: "conv2d_padding",
  parameters: types,
  emit(f, { parameters }) {
    const { images, rows, rowBytes, above, below, before, after } = parameters;
    const none = f.let(f32x4.const(0));
    const [from, to] = [f.let(parameters.input), f.let(parameters.output)];
    const end = f.local("i32");
    // Vectors may reach past the end of a part: what follows is written later.
    const part = (bytes: typeof rowBytes, vector: () => void): void => {
      f.set(end, i32.add(to, bytes));
      f.forLocal(to, end, vector, { step: 16 });
      f.set(to, end);
    };
    const zeros = (bytes: typeof rowBytes): void => part(bytes, () => f.store(to, none));
    const next = f.local("i32");
    f.forRange(0, images, () => {
      zeros(above);
      f.forRange(0, rows, () => {
        zeros(before);
        f.set(next, i32.add(from, rowBytes));
        part(rowBytes, () => {
          f.store(to, v128.load(from));
          f.add(from, 16);
        });
        f.set(from, next);
        zeros(after);
      });
      zeros(below);
    });
  },
});
