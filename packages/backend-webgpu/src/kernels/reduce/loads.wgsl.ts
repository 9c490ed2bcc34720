import { isTruthReduction, type ReducedType, type TruthReduceKind } from "@backplane/core";
import { type ElementLayout, type ElementType, layouts, wgsl } from "../../program/index.js";
import type { ReduceTile } from "./tile.js";
import { truths } from "./truths.wgsl.js";

type LoadForm = Pick<ReduceTile, "dtype" | "operator" | "wide" | "along">;

/** How elements lie in storage, and how they are read one by one. */
type ReadLayout = Pick<ElementLayout, "value" | "single" | "quad" | "block" | "functions" | "load"> & {
  readonly perBlock: 4 | 8 | 16;
};

export const readLayouts: Readonly<Record<ReducedType, ReadLayout>> = {
  ...layouts,
  u8: {
    ...{ value: "u32", single: "byte", quad: "u32", block: "vec4u", perBlock: 16, functions: "" },
    load: (binding, index) => `((${binding}[(${index}) >> 2u] >> (8u * ((${index}) & 3u))) & 0xffu)`,
  },
};

/** Elements that one wide load takes: 16 bytes along a reduced axis, but four outputs along a kept one. */
export function elementsPerLoad(dtype: ReducedType, along: ReduceTile["along"]): number {
  return along === "kept" ? 4 : readLayouts[dtype].perBlock;
}

export function storageType({ dtype, wide, along }: LoadForm): ElementType {
  const { single, quad, block } = readLayouts[dtype];
  if (!wide) return single;
  return along === "kept" ? quad : block;
}

function truthLoad(operator: TruthReduceKind, { dtype, wide, along }: LoadForm): string {
  const { value, bytes } = truths[operator];
  const type = wide ? "vec4<u32>" : "u32";
  const head = `fn load(place: u32) -> ${type}`;
  if (!wide) return `${head} { return ${value(type, readLayouts[dtype].load("data", "place"))}; }`;
  if (dtype !== "u8") return `${head} { return ${value(type, "data[place]")}; }`;
  if (along === "reduced") return `${head} { let words = data[place]; return ${bytes("words")}; }`;
  const unpacked = "((vec4<u32>(data[place]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu))";
  return `${head} { return ${value(type, unpacked)}; }`;
}

/** What a load leaves: a value, or, of eight elements that are not joined at once, two, as columns of a matrix. */
export function loadedValues(tile: LoadForm): readonly string[] {
  return isPair(tile) ? ["[0]", "[1]"] : [""];
}

function isPair({ dtype, operator, wide, along }: LoadForm): boolean {
  return operator === "logSumExp" && dtype === "f16" && wide && along === "reduced";
}

export function loadFunction(form: LoadForm): string {
  const { dtype, operator, wide, along } = form;
  if (isTruthReduction(operator)) return truthLoad(operator, form);
  if (dtype === "u8") throw new Error(`there is no ${operator} of u8`);
  const { value, load } = layouts[dtype];
  if (!wide) return `fn load(place: u32) -> ${value} { return ${load("data", "place")}; }`;
  if (dtype !== "f16") return `fn load(place: u32) -> vec4<${value}> { return data[place]; }`;
  const [first, second] = [quadOf("xy"), quadOf("zw")];
  if (along === "kept") return halvesLoad("vec4<f32>", first);
  if (isPair(form)) return halvesLoad("mat2x4<f32>", `mat2x4<f32>(${first}, ${second})`);
  return halvesLoad("vec4<f32>", `combine_wide(${first}, ${second})`);
}

const quadOf = (pair: string): string =>
  `vec4<f32>(unpack2x16float(words.${pair[0]}), unpack2x16float(words.${pair[1]}))`;

const halvesLoad = (type: string, result: string): string => wgsl`
fn load(place: u32) -> ${type} {
  let words = data[place];
  return ${result};
}`;
