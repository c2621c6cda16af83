export function stagePackages(
  directory: string,
  source: string,
): readonly { readonly name: string; readonly version: string; readonly directory: string }[]
