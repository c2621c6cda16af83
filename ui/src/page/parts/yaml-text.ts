import { dump } from 'js-yaml'

/** An object as `akri get -o yaml` prints it. */
export function yamlText(object: object): string {
  return dump(object)
}
