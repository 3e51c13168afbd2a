/**
 * A knowledge-base file: SQLite with the table `chunks`, whose vectors are little-endian float32. Each query opens the
 * file, and no query writes it. So a replaced file takes effect with the next query.
 */
import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { z } from 'zod'
import {
  KnowledgeError,
  type KnowledgeHit,
  type KnowledgeProvider,
  type KnowledgeQuestion,
  type Product,
} from './types.ts'

const required = ['text', 'project_name', 'project_version']
const bytesPerNumber = 4
/** The number of vectors between two checks whether the caller has aborted. */
const rowsBetweenChecks = 256
/**
 * Several versions of a manual often have the same text. For each requested chunk, the search keeps this many
 * candidates.
 */
const candidatesPerHit = 5

const text = z.union([z.string(), z.number(), z.null()]).transform(value => (value === null ? '' : String(value)))
const product = z.object({ project: text, version: text, chunks: z.int() })
const chunk = z.object({ text, title: text, section: text, project: text, version: text, path: text })
const tableColumn = z.object({ name: z.string() })

/** @throws KnowledgeError */
function within<Result>(path: string, work: (database: DatabaseSync, columns: ReadonlySet<string>) => Result): Result {
  if (!existsSync(path)) throw new KnowledgeError({ kind: 'missing' })
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(path, { readOnly: true, allowExtension: false })
    const columns = new Set(
      database
        .prepare(`SELECT name FROM pragma_table_info('chunks')`)
        .all()
        .map(row => tableColumn.parse(row).name),
    )
    const missing = columns.size === 0 ? 'table chunks' : required.find(name => !columns.has(name))
    if (missing !== undefined) throw new KnowledgeError({ kind: 'invalid', problem: `it has no ${missing}` })
    return work(database, columns)
  } catch (error) {
    if (error instanceof KnowledgeError) throw error
    // SQLite's own message, for example for a malformed or locked file.
    const problem = error instanceof Error && 'errcode' in error ? error.message : 'it cannot be read'
    throw new KnowledgeError({ kind: 'invalid', problem })
  } finally {
    database?.close()
  }
}

/** Projects and versions, by name. @throws KnowledgeError */
export const readProducts = (path: string): readonly Product[] =>
  within(path, database =>
    database
      .prepare(
        'SELECT project_name AS project, project_version AS version, count(*) AS chunks FROM chunks GROUP BY 1, 2 ORDER BY 1, 2',
      )
      .all()
      .map(row => product.parse(row)),
  )

const conditionOf = (column: string, values: readonly string[]): string =>
  values.length === 0 ? '' : ` AND ${column} IN (${values.map(() => '?').join(', ')})`

const columnOf = (provider: KnowledgeProvider): string => `${provider}_embedding`

/** The numbers of a BLOB, or undefined if their count differs from `dimensions`. */
function numbersOf(blob: Uint8Array, dimensions: number): Float32Array | undefined {
  if (blob.length !== dimensions * bytesPerNumber) return undefined
  const { buffer, byteOffset } = byteAligned(blob)
  return new Float32Array(buffer, byteOffset, dimensions)
}

const byteAligned = (blob: Uint8Array): Uint8Array => (blob.byteOffset % bytesPerNumber === 0 ? blob : blob.slice())

/**
 * The cosine of two vectors of the same dimension; `length` is the length of the first vector. Returns NaN if a vector
 * is 0 or contains no numbers.
 */
function cosine(one: Float32Array, length: number, other: Float32Array): number {
  let [product, square] = [0, 0]
  for (let at = 0; at < one.length; at++) {
    const value = other[at] ?? 0
    product += (one[at] ?? 0) * value
    square += value * value
  }
  return product / (length * Math.sqrt(square))
}

type Candidate = { readonly rowid: number | bigint; readonly similarity: number }

/** The nearest chunks so far, in a sorted list. A list is fast enough, because it is short and few chunks enter it. */
function createNearest(limit: number): { add(one: Candidate): void; readonly all: readonly Candidate[] } {
  const all: Candidate[] = []
  return {
    all,
    add: one => {
      if (all.length === limit && one.similarity <= (all.at(-1)?.similarity ?? 0)) return
      const at = all.findIndex(({ similarity }) => similarity < one.similarity)
      all.splice(at === -1 ? all.length : at, 0, one)
      if (all.length > limit) all.pop()
    },
  }
}

/**
 * Finds exactly the chunks nearest to a vector. Returns duplicate texts once.
 * @param isAborted whether the caller has aborted; the search then stops and returns the chunks found so far
 * @throws KnowledgeError
 */
export function searchFile(
  path: string,
  question: KnowledgeQuestion,
  isAborted: () => boolean,
): readonly KnowledgeHit[] {
  const { provider, vector, projects, versions, limit } = question
  return within(path, (database, columns) => {
    const column = columnOf(provider)
    if (!columns.has(column)) throw new KnowledgeError({ kind: 'no vectors', provider })
    const length = Math.hypot(...vector)
    const nearest = createNearest(limit * candidatesPerHit)
    const scan = database.prepare(
      `SELECT rowid AS place, ${column} AS vector FROM chunks WHERE ${column} IS NOT NULL${conditionOf('project_name', projects)}${conditionOf('project_version', versions)}`,
    )
    let seen = 0
    let compared = 0
    let otherBytes: number | undefined
    for (const { place: rowid, vector: blob } of scan.iterate(...projects, ...versions)) {
      if (++seen % rowsBetweenChecks === 0 && isAborted()) break
      if (!(blob instanceof Uint8Array) || (typeof rowid !== 'number' && typeof rowid !== 'bigint')) continue
      const numbers = numbersOf(blob, vector.length)
      if (numbers === undefined) {
        otherBytes = blob.length
        continue
      }
      compared++
      const similarity = cosine(vector, length, numbers)
      if (!Number.isNaN(similarity)) nearest.add({ rowid, similarity })
    }
    if (compared === 0 && otherBytes !== undefined) {
      throw new KnowledgeError({ kind: 'dimensions', stored: otherBytes / bytesPerNumber, requested: vector.length })
    }
    return textsOf(database, columns, nearest.all, limit)
  })
}

function textsOf(
  database: DatabaseSync,
  columns: ReadonlySet<string>,
  candidates: readonly Candidate[],
  limit: number,
): readonly KnowledgeHit[] {
  const maybe = (column: string) => (columns.has(column) ? column : 'NULL')
  const read = database.prepare(
    `SELECT text, ${maybe('title')} AS title, ${maybe('section')} AS section, project_name AS project, project_version AS version, ${maybe('file_path')} AS path
     FROM chunks WHERE rowid = ?`,
  )
  const hits: KnowledgeHit[] = []
  const texts = new Set<string>()
  for (const { rowid, similarity } of candidates) {
    if (hits.length === limit) break
    const row = read.get(rowid)
    if (row === undefined) continue
    const found = chunk.parse(row)
    if (texts.has(found.text)) continue
    texts.add(found.text)
    hits.push({ ...found, similarity })
  }
  return hits
}
