import { type Digits, pixels, side } from "./data.js";

export interface DrawnDigit {
  /** Number of the image. */
  readonly index: number;
  readonly predicted: number;
}

/** The outermost pixels are blank on nearly every image. */
const margin = 3;
const width: number = side - 2 * margin;
const ink = 96;
const gap = "  ";

/** Draws digits side by side, as many as fit, each with its prediction. Two pixels share a character. */
export function drawDigits(digits: Digits, drawn: readonly DrawnDigit[], columns: number): string {
  const fitting = Math.max(1, Math.floor((columns + gap.length) / (width + gap.length)));
  const shown = drawn.slice(0, fitting);
  const lines: string[] = [];
  for (let y = margin; y < side - margin; y += 2)
    lines.push(shown.map(({ index }) => rowPair(digits, index, y)).join(gap));
  lines.push(shown.map((digit) => caption(digits, digit).padEnd(width)).join(gap));
  return lines.map((line) => line.trimEnd()).join("\n");
}

function rowPair(digits: Digits, index: number, y: number): string {
  const image = digits.images.subarray(index * pixels, (index + 1) * pixels);
  let text = "";
  for (let x = margin; x < side - margin; x++) {
    const upper = image[y * side + x]! >= ink;
    const lower = image[(y + 1) * side + x]! >= ink;
    text += upper ? (lower ? "█" : "▀") : lower ? "▄" : " ";
  }
  return text;
}

function caption(digits: Digits, { index, predicted }: DrawnDigit): string {
  const label = digits.labels[index]!;
  return predicted === label ? `predicted ${predicted}, right` : `predicted ${predicted}, is a ${label}`;
}
