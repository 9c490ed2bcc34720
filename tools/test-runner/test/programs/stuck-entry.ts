it("keeps its page busy for good", () => {
  for (;;);
});
