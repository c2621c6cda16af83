import { DETAILS_PATH } from '../handler-details.js'
import { sourceOffset } from './scalar-offset.js'
import { type Place, TextPlaces } from './text-places.js'
import { YamlTree } from './yaml-tree.js'

/** The place in the text of the details, which has lines of its own. */
export type InDetails = { readonly path: string } | { readonly offset: number }

/** The part of a problem that its place is computed from. */
interface Located {
  /** The number of the document in the file, from 1; 0 if the file cannot be parsed. */
  readonly document: number
  readonly path: string
  /** The place of a syntax error. */
  readonly place?: Place | undefined
  readonly inDetails?: InDetails | undefined
}

/** Finds the places of problems in a file, which has a syntax error or a tree. */
export class ManifestPlaces {
  readonly #text: string
  #places: TextPlaces | undefined
  #tree: YamlTree | undefined

  constructor(text: string) {
    this.#text = text
  }

  /** @returns undefined if the problem is about the whole file */
  placeOf({ document, path, place, inDetails }: Located): Place | undefined {
    if (document === 0) return place
    this.#places ??= new TextPlaces(this.#text)
    this.#tree ??= new YamlTree(this.#text)
    const offset = inDetails && this.#offsetInDetails(document, path, inDetails)
    return this.#places.placeOf(offset ?? this.#tree.offsetOf(document, path))
  }

  #offsetInDetails(document: number, path: string, inDetails: InDetails): number | undefined {
    const field = path.slice(0, path.indexOf(DETAILS_PATH) + DETAILS_PATH.length)
    const scalar = this.#tree?.scalarAt(document, field)
    if (scalar === undefined) return undefined
    const offset =
      'offset' in inDetails
        ? inDetails.offset
        : new YamlTree(this.#tree?.text(scalar) ?? '').offsetOf(1, inDetails.path)
    return sourceOffset(this.#text, scalar, offset)
  }
}
