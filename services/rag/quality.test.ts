/**
 * Retrieval quality over HTTP, with a real Postgres, a real embedding model, and a collection with judgements. The
 * model takes minutes for 1,400 documents. So the test runs only with ESPALIER_COLLECTION, a directory with
 * corpus.jsonl, queries.jsonl and qrels.tsv in BEIR's format. With ESPALIER_SOAK it also runs if Cranfield is in a
 * directory beside the project.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { isSoak } from '../../operator/testing/soak.ts'
import { startPgvector } from '../testing/pgvector.ts'
import { evaluationText } from './evaluate/evaluate.ts'
import { evaluateOverHttp } from './evaluate/testing/collection.ts'

const cranfield = fileURLToPath(new URL('../../../shared/rag-quality', import.meta.url))
const folder = process.env.ESPALIER_COLLECTION ?? (isSoak && existsSync(cranfield) ? cranfield : undefined)
const name = 'retrieval quality: needs a collection with judgements, named by ESPALIER_COLLECTION'

/** The published nDCG@10 for the collection: plain BM25, and its fusion with exact vectors. */
const known = { lexical: 0.396, hybrid: 0.468 }

if (folder === undefined) test.skip(name, () => {})
else
  test(name, { timeout: 2_400_000 }, async () => {
    const postgres = await startPgvector()
    const evaluation = postgres && (await evaluateOverHttp(postgres, folder).finally(() => postgres.stop()))
    if (evaluation === undefined) throw new Error('the Python packages cannot be had')
    console.log(evaluationText(evaluation))
    const of = (arm: string) => evaluation.arms.find(one => one.name === arm)?.metrics.ndcg10.mean ?? 0
    expect(evaluation.arms.flatMap(({ failures }) => failures)).toEqual([])
    expect(of('vector')).toBeGreaterThan(of('exact') - 0.01)
    expect(of('hybrid')).toBeGreaterThan(Math.max(of('lexical'), of('vector')))
    if (folder !== cranfield) return
    expect(of('lexical')).toBeGreaterThanOrEqual(known.lexical)
    expect(of('hybrid')).toBeGreaterThanOrEqual(known.hybrid)
  })
