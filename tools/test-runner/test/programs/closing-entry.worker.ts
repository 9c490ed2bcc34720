it("ends its worker", async () => {
  close();
  await new Promise(() => {});
});
