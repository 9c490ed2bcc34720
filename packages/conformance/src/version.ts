/** The version of this package, for reports. A constant, since pages cannot read package.json. */
export const suiteVersion: string = "0.1.0";
