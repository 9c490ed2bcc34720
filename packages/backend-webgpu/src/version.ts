/** As in package.json, which a page cannot read. */
export const packageVersion = "0.1.0";
