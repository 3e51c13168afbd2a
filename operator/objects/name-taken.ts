/** An object of another owner has the name of a child. */
export class NameTakenError extends Error {
  override readonly name = 'NameTakenError'
  constructor(kind: string, { namespace, name }: { namespace?: string; name: string }) {
    super(
      `${kind} ${namespace}/${name} belongs to another owner: delete it so that the operator can create its own. Check its contents before you delete it`,
    )
  }
}
