/**
 * For tests: splits SQL text like Postgres (manual, section 4.1), as far as the service's statements need. Comments,
 * dollar quotes and escape strings have their own kinds of token: a test can check that a statement contains none of
 * them.
 */
type Token = {
  kind: 'identifier' | 'string' | 'parameter' | 'word' | 'number' | 'operator' | 'foreign'
  text: string
}

const patterns: [Token['kind'], RegExp][] = [
  ['foreign', /--|\/\*|\*\/|\$[A-Za-z_\u0080-\uffff]?[A-Za-z0-9_\u0080-\uffff]*\$|[EeBbXxNn]'|[Uu]&['"]/y],
  ['identifier', /"(?:[^"]|"")*"/y],
  ['string', /'[^'\\]*'/y],
  ['parameter', /\$[0-9]+(?![0-9A-Za-z_])/y],
  ['word', /[A-Za-z_][A-Za-z0-9_]*/y],
  ['number', /[0-9]+/y],
  ['operator', /::|:=|->>|->|\|\||[-+*/<>=~!@#%^&|`?]+|[(),.[\]]/y],
]

/** All tokens of a statement, without white space. */
export function tokens(sql: string): Token[] {
  const found: Token[] = []
  for (let at = 0; at < sql.length; ) {
    if (/\s/.test(sql[at] ?? '')) {
      at++
      continue
    }
    const token = tokenAt(sql, at)
    found.push(token)
    at += token.text.length
  }
  return found
}

function tokenAt(sql: string, at: number): Token {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at
    const text = pattern.exec(sql)?.[0]
    if (text !== undefined) return { kind, text }
  }
  return { kind: 'foreign', text: sql[at] ?? '' }
}
