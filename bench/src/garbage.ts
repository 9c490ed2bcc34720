import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Has the engine collect all garbage now. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}
