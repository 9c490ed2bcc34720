import { expect } from "chai";
import { Meter } from "#src/meter.js";

describe("the meter", () => {
  const { now } = performance;
  afterEach(() => {
    performance.now = now;
  });

  it("tells the rate of the tokens, however long after the last one it is asked", () => {
    let time = 1000;
    performance.now = () => time;
    const meter = new Meter();
    expect(String(meter)).to.equal("no token yet");
    for (const passes of [50, 100, 100]) {
      time += passes;
      meter.count();
    }
    time += 60_000;
    expect(String(meter)).to.equal("first token after 50 ms, then 10 tokens/s");
    meter.restart();
    time += 7;
    meter.count();
    expect(String(meter)).to.equal("first token after 7 ms");
    time += 1;
    meter.count();
    expect(String(meter)).to.equal("first token after 7 ms, then 1,000 tokens/s");
    expect(meter.total).to.equal(5);
  });
});
