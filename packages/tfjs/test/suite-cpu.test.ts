// Tags: pure, long
import { checkSuite } from "./suite.js";

describe("the suite of tfjs-core on the CPU", () => {
  it("passes, but for the specs that are listed with their reasons", async () => {
    await checkSuite("cpu", 4200);
  });

  it("passes likewise with what is few and only on the host computed there", async () => {
    await checkSuite("cpu", 4200, 1000);
  });
});
