import { wgsl } from "../../program/index.js";

/** Needs differences of scores from their maximum, times log2(e). */
export const weightFunction: string = wgsl`/// Weights below the smallest normal number are zero, on every device.
fn weight(difference: vec4f) -> vec4f { return select(vec4f(), exp2(difference), difference > vec4f(-126.0)); }`;

/** For weights as sums of two f16 numbers. */
export const halvesFunctions: string = wgsl`/// The leading bits of f32 numbers, as many as f16 has.
fn leading(v: vec4f) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(v) & vec4u(0xffffe000u)); }
fn halves_of(words: vec2u) -> vec4f { return vec4f(unpack2x16float(words.x), unpack2x16float(words.y)); }
fn eight_halves(low: vec4f, high: vec4f) -> vec4u {
  return vec4u(pack2x16float(low.xy), pack2x16float(low.zw), pack2x16float(high.xy), pack2x16float(high.zw));
}`;
