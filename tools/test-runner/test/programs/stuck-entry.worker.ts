it("keeps its worker busy for good", () => {
  for (;;);
});
