import type { FloatType } from "@backplane/core";
import { input, type Storage, wgsl } from "../../program/index.js";

/** How four neighbouring elements get from memory to registers, and from there into a product. */
export interface QuadAccess {
  /** The WGSL function that reads them. */
  readonly load: string;
  /** The type of its values: halves stay packed, as unpacking would have to wait for them. */
  readonly type: "vec4f" | "vec2u";
  /** WGSL expression: the same as a vec4f. */
  readonly unpacked: (value: string) => string;
}

/** For an operand of `operandText` that is read four elements at a time. */
export function quadAccess(name: string, dtype: FloatType): QuadAccess {
  return dtype === "f32"
    ? { load: `${name}_load4`, type: "vec4f", unpacked: (value) => value }
    : { load: `${name}_packed4`, type: "vec2u", unpacked: (value) => `quad_of(${value})` };
}

/** Binding and load functions of an operand, which count elements from the start of its buffer. */
export function operandText(
  name: string,
  dtype: FloatType,
  vector: boolean,
): { storage: Storage; functions: string } {
  if (dtype === "f32")
    return vector
      ? {
          storage: input("vec4f"),
          functions: wgsl`
const ${name}_unit = 4u; // elements in one unit of ${name}_offset
fn ${name}_load4(index: u32) -> vec4f { return ${name}[index >> 2u]; }
`,
        }
      : {
          storage: input("f32"),
          functions: wgsl`
const ${name}_unit = 1u; // elements in one unit of ${name}_offset
fn ${name}_load1(index: u32) -> f32 { return ${name}[index]; }
`,
        };
  return vector
    ? {
        storage: input("half4"),
        functions: wgsl`
const ${name}_unit = 4u; // elements in one unit of ${name}_offset
fn ${name}_load4(index: u32) -> vec4f { return quad_of(${name}_packed4(index)); }
fn ${name}_packed4(index: u32) -> vec2u { return ${name}[index >> 2u]; }
`,
      }
    : {
        storage: input("half"),
        functions: wgsl`
const ${name}_unit = 1u; // elements in one unit of ${name}_offset
fn ${name}_load1(index: u32) -> f32 { return half_at(${name}[index >> 1u], index); }
`,
      };
}
