import { expect } from "chai";
import { type Digits, pixels, side } from "#src/data.js";
import { drawDigits } from "#src/drawing.js";
import { largestDifference, predictions } from "#src/evaluation.js";
import { plotLoss, svgOfLoss } from "#src/plot.js";
import { ProgressBar } from "#src/progress.js";

class Paper {
  readonly isTTY: boolean;
  readonly columns = 60;
  text = "";

  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }

  write(text: string): void {
    this.text += text;
  }
}

describe("ProgressBar", () => {
  it("is a few plain lines away from a terminal", () => {
    const paper = new Paper(false);
    const bar = new ProgressBar(paper, "train cpu");
    for (let i = 1; i <= 100; i++) bar.show(i / 100, "loss 1.0");
    expect(paper.text.split("\n")).to.have.length(5);
    expect(paper.text).to.match(/^train cpu +█+░+ +25% {2}loss 1\.0\n/);
    expect(paper.text).not.to.contain("\r").and.not.to.contain("\x1b");
  });

  it("redraws one line of a terminal, no longer than it is wide", () => {
    const paper = new Paper(true);
    const bar = new ProgressBar(paper, "train cpu");
    bar.show(0.5, "a text that is too long for such a narrow terminal");
    bar.show(1, "done");
    const [, first, second, ...rest] = paper.text.split("\r");
    expect(rest).to.deep.equal([]);
    expect(first!.replace("\x1b[K", "")).to.have.length(59);
    expect(second).to.contain("100%  done\x1b[K\n");
  });
});

describe("the loss", () => {
  const readings = [1, 0.1, 0.01].map((loss, i) => ({
    step: 10 * (i + 1),
    loss,
    backend: i < 2 ? "cpu" : "webgpu",
  }));

  it("is plotted with dots from the upper left to the lower right, no wider than the terminal", () => {
    const lines = plotLoss(readings, 40).split("\n");
    expect(lines).to.have.length(13);
    for (const line of lines) expect(line.length).to.be.at.most(40);
    const dots = lines.flatMap((line, row) =>
      [...line.matchAll(/[\u2800-\u28ff]/g)].map(({ index }) => ({ row, index })),
    );
    expect(dots.map(({ row }) => row)).to.deep.equal([1, 6, 10]);
    expect(dots[2]!.index).to.equal(39);
    expect(lines[1]).to.match(/^ +1\.0000 ┤/);
    expect(lines[10]).to.match(/^ +0\.0100 ┤/);
    expect(plotLoss(readings.slice(0, 1), 40)).to.equal("");
  });

  it("is drawn as SVG with a line for each backend", () => {
    const svg = svgOfLoss(readings);
    expect(svg).to.match(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 720 360"/);
    expect([...svg.matchAll(/<polyline /g)]).to.have.length(2);
    expect(svg).to.contain('points="258.7,56.0 461.3,180.0"');
    expect(svg).to.contain(">cpu</tspan>").and.to.contain(">webgpu</tspan>");
  });
});

describe("drawDigits", () => {
  // A cross through the middle of the first image, nothing on the second.
  const images = new Uint8Array(2 * pixels);
  for (let i = 0; i < side; i++) {
    images[14 * side + i] = 255;
    images[i * side + 14] = 255;
  }
  const digits: Digits = { count: 2, images, labels: Uint8Array.of(4, 5) };
  const drawn = [
    { index: 0, predicted: 4 },
    { index: 1, predicted: 6 },
  ];

  it("draws digits side by side with their predictions", () => {
    const lines = drawDigits(digits, drawn, 80).split("\n");
    expect(lines).to.have.length(12);
    expect(lines[0]).to.equal(`${" ".repeat(11)}█`);
    expect(lines[5]).to.equal(`${"▄".repeat(11)}█${"▄".repeat(10)}`);
    expect(lines[11]).to.equal("predicted 4, right      predicted 6, is a 5");
  });

  it("draws no more than fit", () => {
    expect(drawDigits(digits, drawn, 45)).not.to.contain("6");
  });
});

describe("evaluation", () => {
  it("predicts the digit with the largest logit", () => {
    const logits = new Float32Array(20).fill(-1);
    logits[3] = 0;
    logits[17] = 2;
    expect([...predictions(logits)]).to.deep.equal([3, 7]);
  });

  it("measures differences against the scale of the numbers", () => {
    const difference = largestDifference(Float32Array.of(1, -8, 3), Float32Array.of(1, -7.5, 3.25));
    expect(difference).to.deep.equal({ absolute: 0.5, scale: 8, relative: 0.0625 });
  });

  it("does not overlook NaN", () => {
    expect(largestDifference(Float32Array.of(1, 2), Float32Array.of(NaN, 2)).absolute).to.be.NaN;
  });
});
