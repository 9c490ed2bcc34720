import type { Resize2dKind } from "@backplane/core";
import { type Arg, type FunctionBuilder, f32, i32, type Local, type Value } from "../../wasm/index.js";
import type { AxisLocals } from "../images/index.js";

/** The results that are made of an element, and the factor of the element in each of them. */
export interface ResultsAlong {
  /** [first, end) */
  readonly first: Local<"i32">;
  readonly end: Local<"i32">;
  readonly set: (element: Local<"i32">) => void;
  /** Of a result between those. */
  readonly factorOf: (result: Arg<"i32">, element: Local<"i32">) => Value<"f32">;
}

/**
 * The inverse of `placesAlong` of resize2d: result o is at n = o factor + shift, over the divisor, and is made of element i if n is
 * between (i - 1) divisor and (i + 1) divisor, or, of the nearest ones, not before i divisor. What lies before the first element
 * belongs to it, and what lies behind the last one to that.
 */
export function resultsAlong(
  f: FunctionBuilder,
  kind: Resize2dKind,
  { size, extent, factor, shift, divisor }: AxisLocals,
): ResultsAlong {
  const unit = f.let(f32.div(f32.const(1), f32.convertI32S(divisor)));
  const last = f.let(i32.sub(size, 1));
  const lastPlace = f.let(i32.mul(last, divisor));
  const [first, end] = [f.local("i32"), f.local("i32")];
  /** Sets how many results are up to n, from the one at 0 on. */
  const setUpTo = (count: Local<"i32">, n: Value<"i32">) => {
    const most = f.let(n);
    f.set(count, 0);
    f.if(i32.geS(most, 0), () => f.set(count, i32.add(i32.divU(most, factor), 1)));
  };
  return {
    ...{ first, end },
    set(element) {
      const at = f.let(i32.sub(i32.mul(element, divisor), shift));
      f.set(first, 0);
      f.if(element, () => setUpTo(first, i32.sub(at, kind === "nearest" ? 1 : divisor)));
      f.set(end, extent);
      f.if(i32.ne(element, last), () => {
        setUpTo(end, i32.sub(i32.add(at, divisor), 1));
        f.set(end, i32.minU(end, extent));
      });
    },
    factorOf(result, element) {
      if (kind === "nearest") return f32.const(1);
      const n = f.let(i32.add(i32.mul(result, factor), shift));
      f.set(n, i32.maxS(i32.minS(n, lastPlace), 0));
      f.set(n, i32.sub(n, i32.mul(element, divisor)));
      // With the weights of resize2d: the rest, times the unit.
      const share = f.local("f32");
      f.if(
        i32.ltS(n, 0),
        () => f.set(share, f32.mul(f32.convertI32S(i32.add(n, divisor)), unit)),
        () => f.set(share, f32.sub(f32.const(1), f32.mul(f32.convertI32S(n), unit))),
      );
      return share;
    },
  };
}
