import type { Step } from "./trainer.js";

const [width, height] = [640, 240];
const svgNamespace = "http://www.w3.org/2000/svg";

/** The loss of each step, as lines: one for each stretch of steps on one backend, in its color. */
export class Plot {
  readonly #svg: SVGSVGElement;
  #steps = 1;
  /** Of the first step: the top of the plot, unless the loss rises. */
  #highest = 0;
  #taken: Step[] = [];

  constructor(svg: SVGSVGElement) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#svg = svg;
  }

  /** Begins anew, for so many steps. */
  begin(steps: number): void {
    this.#steps = steps;
    this.#highest = 0;
    this.#taken = [];
    this.#svg.replaceChildren();
  }

  add(step: Step): void {
    const last = this.#taken.at(-1);
    this.#taken.push(step);
    if (step.loss > this.#highest) {
      this.#highest = step.loss;
      this.#redraw();
    } else this.#draw(step, last);
  }

  #redraw(): void {
    this.#svg.replaceChildren();
    for (const [i, step] of this.#taken.entries()) this.#draw(step, this.#taken[i - 1]);
  }

  #draw(step: Step, last: Step | undefined): void {
    let line = this.#svg.lastElementChild as SVGPolylineElement | null;
    if (line?.dataset.backend !== step.backend) {
      line = document.createElementNS(svgNamespace, "polyline");
      line.dataset.backend = step.backend;
      // Lines meet: that of a backend begins where the one before it ends.
      if (last !== undefined) line.setAttribute("points", this.#point(last));
      this.#svg.append(line);
    }
    line.setAttribute("points", `${line.getAttribute("points") ?? ""} ${this.#point(step)}`.trim());
  }

  #point({ number, loss }: Step): string {
    const x = (number / this.#steps) * width;
    const y = height * (1 - loss / this.#highest);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  }
}
