/** Replaces field names in API errors with the command's options. Pure. */

/** Rewrites the message of an error. */
export type Rewrite = (message: string) => string

/**
 * `options` has the option or argument for each field, such as `{ target_time: '--to' }`. The first name of a path,
 * such as `ip_allowlist.rules[0].cidr`, selects the option. After the path, only names with an underscore are replaced,
 * because `size` can be a word of the sentence.
 */
export const inOptions =
  (options: Readonly<Record<string, string>>): Rewrite =>
  message => {
    const optionOf = (field: string) => (Object.hasOwn(options, field) ? options[field] : undefined)
    return message
      .split('; ')
      .map(fault => {
        const [path = '', field = ''] = /^([a-z_]+)(?:[.[][\w.[\]]*)?(?=: )/.exec(fault) ?? []
        const option = optionOf(field)
        const [head, rule] = option === undefined ? ['', fault] : [option, fault.slice(path.length)]
        return head + rule.replace(/\b[a-z]+_[a-z_]+\b/g, word => optionOf(word) ?? word)
      })
      .join('; ')
  }
