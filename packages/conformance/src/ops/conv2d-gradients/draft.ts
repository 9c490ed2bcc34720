import type { Draft, Draw } from "../../kit/draft.js";
import { magnitude, type Range, within } from "../../kit/range.js";
import { draft as convolutionDraft } from "../conv2d/draft.js";
import type { Gradient } from "./cases.js";

/** Draws a convolution, and a call of its gradient. */
export function gradientDraft({ other, result }: Pick<Gradient, "other" | "result">): Draw {
  return (dice, limits, dtype): Draft => {
    const { rest, inputs, outputs } = convolutionDraft(dice, limits, dtype);
    const [input, filter, output] = [inputs.input!, inputs.filter!, outputs.output!];
    const [elements, terms] = result === "inputGradient" ? [input, filter] : [filter, output];
    const accumulate = dice.next() < 0.3;
    return {
      rest: { ...rest, accumulate },
      inputs: { [other]: other === "filter" ? filter : input, outputGradient: output },
      outputs: { [result]: elements },
      ...(accumulate ? { keepsOutputs: true } : {}),
      range: (ranges: Readonly<Record<string, Range>>) =>
        within(
          terms * magnitude(ranges[other]!) * magnitude(ranges.outputGradient!) +
            (accumulate ? magnitude(ranges[result]!) : 0),
        ),
    };
  };
}
