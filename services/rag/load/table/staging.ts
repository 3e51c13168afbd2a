/**
 * A staging table for passages before the load moves them into the table. The load commits batches to the staging
 * table, so that a killed load does not pay for its vectors twice. It moves complete files, so that no reader sees half
 * a file.
 */
import { createHash } from 'node:crypto'
import { qualified, quoteIdentifier } from '../../../postgres/quote.ts'
import type { Statement } from '../database.ts'
import { type LoadTable, ownColumns, type VectorShape, vectorTypeSql } from './layout.ts'

export type StagedPassage = {
  readonly id: string
  readonly source: string
  readonly document: string
  readonly heading: string
  readonly ordinal: number
  readonly position: number
  readonly digest: string
  readonly content: string
}

/** The digest of the content and of the model that embeds it. */
export const digestOf = (model: string, content: string): string =>
  createHash('sha256').update(`${model}\0${content}`).digest('base64url')

export const idOf = (source: string, document: string, key: string): string =>
  createHash('sha256').update(`${source}\0${document}\0${key}`).digest('hex').slice(0, 32)

const stagingName = ({ schema, name }: LoadTable): string =>
  `espalier_load_${createHash('sha256').update(`${schema}\0${name}`).digest('hex').slice(0, 16)}`

const metadata = Object.keys(ownColumns).map(name => quoteIdentifier(name))

/** Statements for the passages of one run of one load. */
export class Staging {
  readonly #table: LoadTable
  readonly #run: string
  readonly #name: string
  readonly #vector: string

  constructor(table: LoadTable, run: string) {
    this.#table = table
    this.#run = run
    this.#name = qualified({ schema: table.schema, name: stagingName(table) })
    this.#vector = vectorTypeSql(table, 'vector')
  }

  create(): readonly Statement[] {
    const columns = Object.entries(ownColumns).map(([name, type]) => `${quoteIdentifier(name)} ${type}`)
    return [
      `CREATE TABLE IF NOT EXISTS ${this.#name} (id text PRIMARY KEY, run text NOT NULL, is_kept boolean NOT NULL, ${columns.join(', ')},
        content text, embedding ${this.#vector})`,
      `CREATE INDEX IF NOT EXISTS ${quoteIdentifier(`${stagingName(this.#table)}_source`)} ON ${this.#name} (source)`,
      `CREATE INDEX IF NOT EXISTS ${quoteIdentifier(`${stagingName(this.#table)}_digest`)} ON ${this.#name} (digest) WHERE embedding IS NOT NULL`,
      `COMMENT ON TABLE ${this.#name} IS 'passages of an unfinished espalier rag load; the next load continues with them'`,
    ].map(text => ({ text }))
  }

  drop(): Statement {
    return { text: `DROP TABLE IF EXISTS ${this.#name}` }
  }

  /**
   * Stages passages, and copies known vectors of equal content. Returns a row for each passage: `needs_vector`. Returns
   * no row for a passage whose id this run has already staged. `reuse`: `rows` keeps unchanged rows of the table;
   * undefined: the table does not exist yet.
   */
  stage(passages: readonly StagedPassage[], reuse: 'rows' | 'vectors' | undefined): Statement {
    const { idColumn, vectorColumn } = this.#table
    const [target, id, vector] = [qualified(this.#table), quoteIdentifier(idColumn), quoteIdentifier(vectorColumn)]
    const same = metadata.map(name => `t.${name} = r.${name}`).join(' AND ')
    const isUnchanged =
      reuse === 'rows'
        ? `EXISTS (SELECT FROM ${target} t WHERE t.${id} = r.id AND ${same} AND t.${vector} IS NOT NULL)`
        : 'false'
    const known = [
      `(SELECT s.embedding FROM ${this.#name} s WHERE s.digest = r.digest AND s.embedding IS NOT NULL LIMIT 1)`,
      ...(reuse === undefined
        ? []
        : [
            `(SELECT t.${vector}::${this.#vector} FROM ${target} t WHERE t.digest = r.digest AND t.${vector} IS NOT NULL LIMIT 1)`,
          ]),
    ]
    const record = Object.entries(ownColumns).map(([name, type]) => `${quoteIdentifier(name)} ${type}`)
    const all = ['run', 'is_kept', ...metadata, 'content', 'embedding']
    return {
      text: `INSERT INTO ${this.#name} (id, ${all.join(', ')})
        SELECT r.id, $2::text, k.is_kept, ${metadata.map(name => `r.${name}`).join(', ')}, CASE WHEN k.is_kept THEN NULL ELSE r.content END,
          CASE WHEN k.is_kept THEN NULL ELSE coalesce(${known.join(', ')}) END
        FROM json_to_recordset($1::json) AS r (id text, ${record.join(', ')}, content text)
          CROSS JOIN LATERAL (SELECT ${isUnchanged} AS is_kept) k
        ON CONFLICT (id) DO UPDATE SET ${all.map(name => `${name} = excluded.${name}`).join(', ')} WHERE ${this.#name}.run <> excluded.run
        RETURNING id, is_kept, NOT is_kept AND embedding IS NULL AS needs_vector`,
      values: [JSON.stringify(passages), this.#run],
    }
  }

  /** Sets the missing vectors of staged passages, by digest. */
  embed(vectors: ReadonlyMap<string, readonly number[]>): Statement {
    const rows = [...vectors].map(([digest, vector]) => ({ digest, embedding: JSON.stringify(vector) }))
    return {
      text: `UPDATE ${this.#name} s SET embedding = r.embedding::${this.#vector}
        FROM json_to_recordset($1::json) AS r (digest text, embedding text)
        WHERE s.digest = r.digest AND s.run = $2 AND s.embedding IS NULL AND NOT s.is_kept`,
      values: [JSON.stringify(rows), this.#run],
    }
  }

  /** Returns the `dimensions` of this run's vectors, or no row if there are no vectors. */
  dimensions(): Statement {
    return {
      text: `SELECT ${quoteIdentifier(this.#table.vectorSchema)}.vector_dims(embedding) AS dimensions FROM ${this.#name}
        WHERE run = $1 AND embedding IS NOT NULL LIMIT 1`,
      values: [this.#run],
    }
  }

  /**
   * One transaction that replaces these files' rows with the rows that this run has staged. The first statement's row
   * count is the number of deleted rows, the second statement's is the number of written rows.
   */
  moveFiles(sources: readonly string[], shape: VectorShape): readonly Statement[] {
    const id = quoteIdentifier(this.#table.idColumn)
    const list = JSON.stringify(sources)
    const ofSources = 'source IN (SELECT json_array_elements_text($1::json))'
    return [
      {
        text: `DELETE FROM ${qualified(this.#table)} t WHERE ${ofSources}
          AND NOT EXISTS (SELECT FROM ${this.#name} s WHERE s.id = t.${id} AND s.run = $2)`,
        values: [list, this.#run],
      },
      this.#insert(shape, `AND s.${ofSources}`, [list]),
      { text: `DELETE FROM ${this.#name} WHERE ${ofSources}`, values: [list] },
    ]
  }

  /** Like `moveFiles`, but replaces all rows of the table. */
  moveAll(shape: VectorShape): readonly Statement[] {
    return [this.#insert(shape, '', [])]
  }

  #insert(shape: VectorShape, condition: string, values: readonly string[]): Statement {
    const { idColumn, textColumn, vectorColumn } = this.#table
    const own = [...metadata, quoteIdentifier(textColumn), quoteIdentifier(vectorColumn)]
    const from = [
      ...metadata.map(name => `s.${name}`),
      's.content',
      `s.embedding::${vectorTypeSql(this.#table, shape.type)}`,
    ]
    return {
      text: `INSERT INTO ${qualified(this.#table)} (${quoteIdentifier(idColumn)}, ${own.join(', ')})
        SELECT s.id, ${from.join(', ')} FROM ${this.#name} s WHERE s.run = $${values.length + 1} AND NOT s.is_kept ${condition} ORDER BY s.source, s.ordinal
        ON CONFLICT (${quoteIdentifier(idColumn)}) DO UPDATE SET ${own.map(name => `${name} = excluded.${name}`).join(', ')}`,
      values: [...values, this.#run],
    }
  }
}
