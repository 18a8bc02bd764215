"""A prepared corpus is what fairseq trains on, shard after shard, and what the hub interface reads."""

from tests.commands import train, train_log
from tupe.data.tokenizers import MASK

TINY = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2)


def test_shards_train_and_masks_are_filled(prepared, tmp_path):
    shards = f"{prepared}:{prepared / 'shard1'}"
    options = ("--arch", "tupe_tiny", *TINY, "--sample-break-mode", "complete_doc", "--max-epoch", 2)
    log = train_log(train(shards, tmp_path, *options).stdout)
    assert [record["epoch"] for record in log["valid"]] == [1, 2]
    assert log["train_inner"][-1]["epoch"] == 2

    from tupe.models import TupeModel

    hub = TupeModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", str(prepared), bpe="sentencepiece",
                                    sentencepiece_model=str(prepared / "sentencepiece.bpe.model"))  # fmt: skip
    assert len(hub.task.source_dictionary) == 150
    assert hub.task.source_dictionary.symbols.count(MASK) == 1
    tokens = hub.encode("Anna sees the house,")
    assert hub.task.source_dictionary.unk() not in tokens
    assert hub.decode(tokens) == "anna sees the house ,"
    assert hub.decode(hub.encode("Anna sees the house", "Bob hears.")) == ["anna sees the house", "bob hears ."]
    mask = hub.encode(f"Anna {MASK}the house.")
    assert mask.eq(hub.task.mask_idx).sum() == 1
    assert mask.tolist() == hub.encode(f"anna {MASK} the house .").tolist()
    filled = [sentence for sentence, _, _ in hub.fill_mask(f"Anna {MASK} the house .", topk=9)]
    assert len(filled) > 5  # a symbol like </s> among the nine is left out
    assert all(sentence.endswith("the house .") and MASK not in sentence for sentence in filled)
    plain = TupeModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", str(prepared), process_text=False)
    assert plain.decode(plain.encode("the house,")) == "the house,"
