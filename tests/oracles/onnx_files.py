"""What an ONNX file would do, by protobuf's own reader and by walking over every message in it, whatever its place."""

import onnx
from google.protobuf.message import DecodeError, Message

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def danger(data):
    """Why the file must not be run; empty where it is harmless or no ONNX."""
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return ""
    if not model.HasField("graph"):
        return "no graph"
    own = {(function.domain, function.name) for function in model.functions}
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto) and (
            message.external_data or message.data_location == onnx.TensorProto.EXTERNAL
        ):
            return "a tensor in another file"
        if isinstance(message, onnx.NodeProto):
            trains = message.op_type == "Dropout" and len(message.input) > 2 and message.input[2]
            if message.domain in ("", "ai.onnx") and (trains or message.op_type in RANDOM):
                return f"operator {message.op_type}"
            if message.domain not in ("", "ai.onnx", "ai.onnx.ml") and (message.domain, message.op_type) not in own:
                return f"operator of {message.domain}"
        if isinstance(message, onnx.TrainingInfoProto):
            return "a part for training"
    return ""


def _messages(message):
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in [value] if isinstance(value, Message) else value:
                yield from _messages(inner)
