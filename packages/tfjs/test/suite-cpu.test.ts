import { checkSuite } from "./suite.js";

describe("the suite of tfjs-core on the CPU", () => {
  it("passes, but for the specs that are listed with their reasons", async () => {
    await checkSuite("cpu", 4200);
  });
});
