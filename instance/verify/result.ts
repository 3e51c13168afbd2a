/** The result of `espalier instance verify`, passed to the operator in the termination message of its container. */
export type VerificationResult = {
  /** The version of Postgres. */
  version: string
  databases: number
  /** Tables, materialized views and their toast. */
  relations: number
  indexes: number
  /** The number of pages that were compared with their checksums; 0 if the data have no checksums. */
  pages: number
  faults: number
  /** Descriptions of the first findings. */
  findings: string[]
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

/** Returns undefined if the text is not such a message. */
export function readVerificationResult(text: string): VerificationResult | undefined {
  try {
    const { version, databases, relations, indexes, pages, faults, findings } = JSON.parse(text)
    const isResult =
      [databases, relations, indexes, pages, faults].every(isCount) &&
      typeof version === 'string' &&
      version.length <= 64 &&
      Array.isArray(findings) &&
      findings.every(finding => typeof finding === 'string')
    return isResult ? { version, databases, relations, indexes, pages, faults, findings } : undefined
  } catch {
    return undefined
  }
}
