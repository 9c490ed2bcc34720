setTimeout(() => {
  throw new Error("thrown outside of a test");
});
// Longer than that takes: mocha does not listen yet.
await new Promise((resolve) => setTimeout(resolve, 1000));

it("holds", () => undefined);
